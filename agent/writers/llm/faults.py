"""What went wrong in a model call: any exception of litellm's as a ModelError with a cure.

litellm's own classes are told by their names, so that this needs no import of it. It makes several
of them up, statuses and responses included, so what HTTP said is read from the cause underneath.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from agent.errors import ModelError
from agent.writers.llm.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.writers.ask import Answer

MAX_MESSAGE = 300
MAX_READ = 8000
_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w{0,40}(?:Error|Exception|Timeout)\s*(?::|-)\s*){1,6}")
_BUDGET = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|fund)|credit balance is too low|billing[_ ]hard"
    r"|(?:out of|not enough|requires more) credits|payment required|spending limit"
    r"|billing_not_active|monthly (?:usage|spend)\w* limit",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(?:incorrect|invalid|no|missing|expired|revoked|wrong)[\w ]{0,20} (?:api|x-api)[- _]?key"
    r"|api[_ -]?key[\w ]{0,20} (?:not valid|invalid|missing|not found|expired|must be set)"
    r"|api_key client option must be set|authentication_error|invalid[_ ]api[_ ]key|unauthorized",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"context[_ ](?:length|window|limit|size)|maximum context|prompt is too long|too many tokens"
    r"|request (?:is )?too large|input is too long|exceeds the maximum number of (?:input )?tokens",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content[_ ](?:filter|policy)|responsible ?ai|safety system|usage policy|safety policy",
    re.IGNORECASE,
)
_FLAGGED = re.compile(r"moderation|flagged", re.IGNORECASE)
_UNKNOWN = re.compile(
    r"model_not_found|provider not provided|not a valid model|no such model|unknown model"
    r"|model\b[^.\n]{0,120}(?:does not exist|not found|not exist|is not available|not supported)",
    re.IGNORECASE,
)
_RATE = re.compile(r"rate[ _-]?limit|too many requests|resource[_ ]exhausted", re.IGNORECASE)
_BUSY = re.compile(r"overloaded|over capacity|server[_ ]error|unavailable", re.IGNORECASE)
_IN_BODY = re.compile(r"retry(?:Delay|_after| after| in)\W{1,5}(\d{1,5}(?:\.\d+)?)\s*(m?s|sec)?",
                      re.IGNORECASE)  # fmt: skip

_LOOP = "repeating the same chunk"  # litellm's words, when it stops a model that never would
_TRANSPORT = frozenset({"TransportError", "APIConnectionError", "OSError", "ClientError"})
# litellm raises these for what it cannot place, each with a status.
_MADE_UP = frozenset({"APIConnectionError", "MidStreamFallbackError", "Timeout", "APIError"})


@dataclass(frozen=True, slots=True)
class Where:
    """What a message needs to know of the call.

    Attributes:
        model: The model's name.
        keys: Environment variables that its key may be in.
        api_base: Of the server, "" for the provider's own.
        local: Whether that is on this machine.
        answered: Whether this model has answered before.
    """

    model: str
    keys: tuple[str, ...] = ()
    api_base: str = ""
    local: bool = False
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What an exception and its causes say.

    Attributes:
        kinds: Class names, causes and base classes included.
        status: Of HTTP; 0 if no response came.
        text: The provider's words, without keys.
        named: Parameters that its body names.
        wait_s: How long it asks to wait.
        broken: Whether the line broke, or never stood.
        refused: Whether nobody listens at the address.
    """

    kinds: frozenset[str]
    status: int
    text: str
    named: tuple[str, ...]
    wait_s: float | None
    broken: bool
    refused: bool


def read(error: BaseException, now_s: float) -> Facts:
    """Gather what is known of an exception; ``now_s`` is the time, for dates."""
    chain = list(_causes(error))
    kinds = {kind.__name__ for item in chain for kind in type(item).__mro__}
    named: list[str] = []
    wait_s = None
    for item in chain:
        response = getattr(item, "response", None)
        headers = getattr(response, "headers", None) or getattr(item, "headers", None)
        wait_s = wait_s if wait_s is not None else _asked(headers, now_s)
        body = getattr(item, "body", None)
        if isinstance(body, dict):
            inner = body.get("error")
            for part in (body, inner if isinstance(inner, dict) else {}):
                named += [str(part[key])[:80] for key in ("param", "code") if part.get(key)]
    text = _words(chain)
    if wait_s is None and (found := _IN_BODY.search(text)):
        wait_s = float(found.group(1)) / (1000 if (found.group(2) or "").lower() == "ms" else 1)
    return Facts(
        frozenset(kinds),
        _status(chain),
        text,
        tuple(named),
        wait_s,
        broken=_broken(chain),
        refused="ConnectionRefusedError" in kinds,
    )


def fault(facts: Facts, where: Where, partial: Answer | None) -> ModelError:
    """The ModelError for what happened, with what to do about it."""
    code, cure, again, fatal = _judge(facts, where, partial)
    said = shown(_PREFIX.sub("", facts.text), MAX_MESSAGE)
    status = f" (HTTP {facts.status})" if facts.status else ""
    return ModelError(
        f"{shown(where.model, 80)}: {_SAYS[code]}{status}: {said or 'it said nothing more'}",
        cure,
        code=code,
        again=again,
        fatal=fatal,
        wait_s=facts.wait_s if again else None,
        partial=partial,
    )


_SAYS = {
    "model-cut": "it said the same again and again",
    "model-budget": "the account has nothing left",
    "model-key": "the key was not accepted",
    "model-context": "the prompt is too long",
    "model-refused": "it refused to answer",
    "model-unknown": "there is no such model",
    "model-rate": "too many requests",
    "model-timeout": "it took too long",
    "model-server": "the provider failed",
    "model-dropped": "the connection broke within the reply",
    "model-connection": "no connection",
    "model-bad": "the request was not accepted",
}


def _judge(facts: Facts, where: Where, partial: Answer | None) -> tuple[str, str, bool, bool]:
    """Code, cure, whether to ask again, whether it is over."""
    kinds, status, text = facts.kinds, facts.status, facts.text
    words = " ".join((text, *facts.named))
    keys = " or ".join(where.keys) or "the provider's environment variable"
    if partial is not None and _LOOP in text:
        return "model-cut", "", False, False
    if "BudgetExceededError" in kinds or status == 402 or _BUDGET.search(words):
        return "model-budget", "add credit at the provider, or name another model", False, True
    if status == 403 and _FLAGGED.search(words):
        return "model-refused", "the search goes on with other ideas", False, False
    if status in (401, 403) or (status in (0, 400) and _KEY.search(words)):
        cure = f"check the key in {keys}, and that it may use this model"
        return "model-key", cure, False, True
    if "ContextWindowExceededError" in kinds or status == 413 or _CONTEXT.search(words):
        return "model-context", "give it smaller prompts or replies, or another model", False, False
    if "ContentPolicyViolationError" in kinds or (status < 500 and _REFUSED.search(words)):
        return "model-refused", "the search goes on with other ideas", False, False
    if status == 404 or (status in (0, 400) and _UNKNOWN.search(words)):
        return "model-unknown", _unknown_cure(where), False, True
    if status == 429 or (status in (0, 503) and _RATE.search(words)):
        return "model-rate", "", True, False
    if status in (408, 504) or kinds & {"Timeout", "APITimeoutError", "TimeoutException"}:
        return "model-timeout", "", True, False
    if status >= 500 or status == 409:
        return "model-server", "", True, False
    if status:
        cure = "correct the model's parameters or its api_base"
        return "model-bad", cure, False, True
    if partial is not None:
        busy = _BUSY.search(words)
        return ("model-server" if busy else "model-dropped"), "", True, False
    if facts.broken:
        return _connection(facts, where)
    return "model-server", "", True, False


def _connection(facts: Facts, where: Where) -> tuple[str, str, bool, bool]:
    if where.local and facts.refused and not where.answered:
        cure = f"start the server at {where.api_base}, or correct the address"
        return "model-connection", cure, False, True
    return "model-connection", "check the network", True, False


def _unknown_cure(where: Where) -> str:
    if where.api_base:
        return (
            f"`forge-tui models --api-base {where.api_base}` lists the server's; an address "
            "without its /v1 gives this too"
        )
    return "`forge-tui models` lists names; a provider comes first, as in anthropic/NAME"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it came from, the outermost first."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo and len(seen) < 20:
        item = todo.pop(0)
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        original = getattr(item, "original_exception", None)
        todo += [
            original if isinstance(original, BaseException) else None,
            item.__cause__,
            item.__context__,
            *(item.exceptions if isinstance(item, BaseExceptionGroup) else ()),
        ]


def _foreign(item: BaseException) -> bool:
    """Whether an exception is not one of litellm's."""
    return type(item).__module__.partition(".")[0] != "litellm"


def _status(chain: list[BaseException]) -> int:
    """The HTTP status; 0 if no response came. litellm says 500 of a broken line too."""
    for item in filter(_foreign, chain):
        status = getattr(getattr(item, "response", None), "status_code", None)
        if isinstance(status, int) and 400 <= status < 600:
            return status
    if _broken(chain):
        return 0
    for item in chain:
        status = getattr(item, "status_code", None)
        names = {kind.__name__ for kind in type(item).__mro__}
        if "UnsupportedParamsError" in names:  # by its own table, and with any status
            return 400
        if isinstance(status, int) and 400 <= status < 600 and not names & _MADE_UP:
            return status
    return 0


def _broken(chain: list[BaseException]) -> bool:
    """Whether the line broke, or never stood."""
    names = {kind.__name__ for item in filter(_foreign, chain) for kind in type(item).__mro__}
    return bool(names & _TRANSPORT)


def _asked(headers: object, now_s: float) -> float | None:
    """Seconds from ``Retry-After`` (a number or a date) or ``retry-after-ms``."""
    get = getattr(headers, "get", None)
    if get is None:
        return None
    try:
        if (ms := get("retry-after-ms")) is not None:
            return max(0.0, float(ms) / 1000)
    except (TypeError, ValueError):
        pass
    value = get("retry-after") or get("Retry-After")
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        try:
            seconds = parsedate_to_datetime(str(value)[:80]).timestamp() - now_s
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < 1e9 else None


def _words(chain: list[BaseException]) -> str:
    """What the provider said: of its body if that has words, else of the exception."""
    for item in chain:
        body: Any = getattr(item, "body", None)
        for part in (body.get("error") if isinstance(body, dict) else None, body):
            message = part.get("message") if isinstance(part, dict) else None
            if isinstance(message, str) and message.strip():
                return redact(message[:MAX_READ])
    try:
        return redact(str(chain[0])[:MAX_READ])
    except Exception:  # noqa: BLE001 - the __str__ of a foreign exception may do anything
        return type(chain[0]).__name__


# What litellm hangs on to a message: the same fault again, and advice for programmers.
_CHAIN = re.compile(r"\s*(?:Original exception:|Handle with `|Received Model Group=)")


def shown(text: str, limit: int) -> str:
    """One bounded, printable line."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    first = _CHAIN.split(clean, maxsplit=1)[0]
    clean = clean if first == clean else first.rstrip(" .;,") or clean
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
