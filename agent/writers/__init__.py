"""What writes programs: the drafter (no language model), a model, a recorded reply, a person."""
