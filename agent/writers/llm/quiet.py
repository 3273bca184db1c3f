"""litellm without what it does besides calling models: look-ups, logs, prints, callbacks.

It is imported at first use (1 to 2 s), by nobody else.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches a price list at import
    "LITELLM_MODE": "PRODUCTION",  # else it reads .env files
    "LITELLM_LOG": "CRITICAL",
    "LITELLM_DISABLE_REDACT_SECRETS": "true",  # seconds for a large error page; we mask ourselves
}
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx", "httpcore")
_REPEATS = 2000  # a table of numbers repeats itself more often than litellm's 100
_PR_SET_DUMPABLE = 4
_importing = threading.Lock()


def litellm() -> Any:
    """The module, imported and silenced once, safe from any thread."""
    with _importing:
        module = sys.modules.get("litellm")
        if module is None or not getattr(module, "forge_quiet", False):
            module = _import()
    return module


def _import() -> Any:
    os.environ.update(_SETTINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm as module
    module.telemetry = False
    module.suppress_debug_info = True
    module.set_verbose = False
    module.turn_off_message_logging = True
    module.redact_messages_in_exceptions = True
    module.disable_streaming_logging = True
    module.disable_hf_tokenizer_download = True
    module.drop_params = False  # we drop them ourselves, and say so
    module.disable_aiohttp_transport = True  # httpx gives every provider the same faults
    module.REPEATED_STREAMING_CHUNK_LIMIT = _REPEATS
    for name in ("input_callback", "success_callback", "failure_callback", "service_callback",
                 "callbacks", "_async_success_callback", "_async_failure_callback",
                 "_async_input_callback"):  # fmt: skip
        setattr(module, name, [])
    worker = importlib.import_module("litellm.litellm_core_utils.logging_worker")
    worker.GLOBAL_LOGGING_WORKER.ensure_initialized_and_enqueue = _drop
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL)
        logger.propagate = False
    module.forge_quiet = True
    return module


def _drop(async_coroutine: Coroutine[Any, Any, object]) -> None:
    """There is nobody to log to, and what is queued would outlive its event loop."""
    async_coroutine.close()


def hide_memory() -> bool:
    """Keep this user's other processes from reading our memory and ``/proc/PID/environ``.

    Keys lie there. Processes that we start are not concerned: the kernel sets it anew at each exec.
    Whether it worked is returned; without Linux' prctl it does not.
    """
    try:
        done: int = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return done == 0
