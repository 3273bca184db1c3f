"""Language models through litellm: one attempt, its price, its faults, its retries, its secrets."""
