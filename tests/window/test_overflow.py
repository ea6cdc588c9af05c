"""What is an overflow and what only looks like one, in our own sentences and in the shared corpus."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.overflow import Overflow, parse_overflow, silent_overflow
from tests.growth import LINEAR, growth
from tests.window import overflow_dialects, overflow_variants, overflow_wordings

SHARED = Path(__file__).parents[2].parent / "shared"
CORPUS = SHARED / "cases" / "overflow_errors.jsonl"

# (text, limit, requested)
OVERFLOWS: list[tuple[str, int | None, int | None]] = [
    ("The prompt has 212,004 tokens but this deployment accepts at most 200,000.", 200_000, 212_004),
    ("Your messages contain 41,120 tokens, which is more than the 32,768 token limit.", 32_768, 41_120),
    ("Conversation too long: 140k tokens, maximum context is 128k tokens.", 128_000, 140_000),
    ("Total input of 1.2M tokens is larger than the 1M token context window.", 1_000_000, 1_200_000),
    ("The supplied history is over the model's context window.", None, None),
    ("Prompt does not fit: 9001 tokens given, context size 8192.", 8192, 9001),
    ("input_too_long", None, None),
    ("ContextLengthExceeded: cannot process this request", None, None),
    ("Bad request: input token limit of 65,536 exceeded (got 70,111).", 65_536, 70_111),
    ("prompt length (50123) must be smaller than the context window (40960)", 40_960, 50_123),
    ("The number of prompt tokens should not exceed 16384, got 20001", 16_384, 20_001),
    ("Context limit reached: 130000 input tokens + 4096 output tokens > 131072", 131_072, 130_000),
    ("The conversation has grown beyond the maximum context length.", None, None),
    ("Sorry, the input you sent is too large for the selected model's context.", None, None),
    ("maximum sequence length is 2048 but the prompt contains 2300 tokens", 2048, 2300),
    ("Sequence length 5000 exceeds max_seq_len 4096", 4096, 5000),
    (
        "The model supports 200000 tokens of context, but 250000 tokens were supplied in the messages.",
        200_000,
        250_000,
    ),
    ("[400] The total number of tokens (135000) exceeds the context limit (131072).", 131_072, 135_000),
    ("HTTP 413: prompt tokens 90000 > context window 65536", 65_536, 90_000),
    (
        "Unable to process: prompt of 77,000 tokens exceeds this model's 64,000-token context window.",
        64_000,
        77_000,
    ),
    ("Request rejected: messages exceed the model's maximum input tokens (32000).", 32_000, None),
    ("n_prompt_tokens = 9000 exceeds n_ctx = 8192", 8192, 9000),
    ("Too many tokens in prompt: 33000 (max 32768)", 32_768, 33_000),
    ("The chat history is too long. Please start a new conversation.", None, None),
    ("This conversation exceeds the maximum length for this model.", None, None),
    ("Input exceeds maximum token limit", None, None),
    (
        "Requested 18000 tokens (2000 in the prompt, 16000 in the completion), context window is 16384.",
        16_384,
        18_000,
    ),
    ("max_input_tokens_exceeded: limit 8000, received 8450", 8000, 8450),
    ('{"error": {"code": "prompt_too_long", "message": "Shorten your prompt"}}', None, None),
    (
        '{"error": {"message": "Bad input", "type": "invalid_request", "code": "context_length_exceeded"}}',
        None,
        None,
    ),
    ('{"detail": "Prompt is over the context window (8,192 tokens)"}', 8192, None),
    ("输入的 token 数量为 150000，超过了模型的最大上下文长度 131072。", 131_072, 150_000),
    ("模型最大上下文长度为 32768 tokens，但您的消息包含 40000 tokens", 32_768, 40_000),
    ("提示词过长，请精简后再提交", None, None),
    ("对话长度已达上限，超出模型上下文窗口", None, None),
    ("上下文窗口溢出，请开启新的会话", None, None),
    ("输入长度（１３５０００）超过最大限制（１３１０７２）", 131_072, 135_000),
    ("本次请求共 20万 tokens，超过上下文上限 12.8万 tokens", 128_000, 200_000),
    ("请求的 tokens 总数 9000 大于模型支持的最大值 8192", 8192, 9000),
    ("输入长度应在 [1, 30720] 之间", 30_720, None),
    ("prompt 长度不能超过 8192 个 token，当前为 9100", 8192, 9100),
    ("对话历史过长，超出了模型的处理能力", None, None),
    ("token 超限：输入 66000，最大 65536", 65_536, 66_000),
    ("输入 token 数超出模型限制", None, None),
    ("错误码 400：会话内容太长，已超过模型上下文", None, None),
    ("當前輸入過長，prompt exceeds context length 4096", 4096, None),
    ("Maximale: prompt is too long: 131.080 tokens > 131.072 maximum", 131_072, 131_080),
]

LOOK_ALIKES: list[str] = [
    # rates, quotas, money, load
    "Rate limited: 90,000 tokens per minute exceeded for this key. Retry after 12 s.",
    "You have used all of your monthly tokens; the token limit of 5,000,000 is exceeded.",
    "TPM limit exceeded: prompt of 40000 tokens is larger than the remaining 12000.",
    "Input tokens per day limit exceeded (1,000,000).",
    "Too many concurrent requests; the prompt was not processed.",
    "Insufficient balance: this prompt needs 12000 tokens, you have 300.",
    "Your organisation's quota of input tokens has been exceeded.",
    "Model overloaded: context window requests are delayed.",
    "The number of tokens exceeds your plan's limit.",
    "每分钟输入 token 超过限制，请稍后重试",
    "账户余额不足，输入 tokens 超出可用额度",
    "请求过于频繁，超过最大并发限制",
    "当日 token 用量已超过上限",
    "模型调用触发限流：输入长度统计超限",
    # the output cap and other parameters
    "max_tokens must not exceed 8192 for this model.",
    "max_completion_tokens (64000) exceeds the maximum of 32768 output tokens.",
    "The requested output length of 20000 tokens is greater than the limit of 16384.",
    "max_output_tokens is too large: the model supports at most 8192.",
    "输出长度超过限制：max_tokens 最大为 8192",
    "max_tokens 不能超过 4096",
    "temperature must be less than or equal to 2",
    "top_logprobs should not exceed 20",
    "budget_tokens must be less than max_tokens",
    "Input should be less than or equal to 128000",
    # bytes, characters, counts, other fields
    "Request body of 33554433 bytes exceeds the 33554432 byte limit",
    "The attached image exceeds the maximum size of 8000 pixels",
    "Too many images in the messages: the limit is 20",
    "Number of messages exceeds the maximum of 2048",
    "Too many tools: 140 given, at most 128 allowed",
    "Tool description is too long (1,300 characters, limit 1,024)",
    "messages.4.tool_calls.0.id: string exceeds maximum length of 40",
    "The file name is too long",
    "Your comment is too long, the maximum length is 500 characters",
    "access token exceeds the maximum length",
    "图片数量超过最大限制 10 张",
    "消息条数超过上限 100",
    "标题过长，最多 50 字",
    "文件大小超过 20MB 限制",
    "评论内容过长",
    # no overflow at all
    "Loaded model with context length 8192 tokens.",
    "Context window: 131072 tokens. Usage: 42% (55,000 tokens).",
    "Prompt tokens: 1200, completion tokens: 300, total tokens: 1500, limit: 128000",
    "The model gpt-4-32k does not exist or you do not have access to it.",
    "Invalid value for 'messages': expected an array of objects.",
    "tool_use ids were found without tool_result blocks immediately after",
    "Your request was flagged by the content policy: the prompt contains 2 violations.",
    "CUDA out of memory while allocating 2.0 GiB",
    "上下文缓存最小长度为 1024 tokens",
    # talk about overflows
    "I saw 'prompt is too long: 213000 tokens > 200000 maximum' in the log and restarted the job.",
    "If the prompt is too long the API answers 400, so trim it first.",
    'The tool result says: "This model\'s maximum context length is 8192 tokens. However, you sent 9000."',
    "We should handle context_length_exceeded before it reaches the user.",
    "Why does it answer that my input exceeds the context window?",
    "except ContextWindowExceededError: compact(history)",
    "For example, a prompt that exceeds the context window is rejected.",
    "When the conversation exceeds the context window, older messages are summarised.",
    "日志里出现了“上下文长度超过限制”的报错，我们需要排查原因",
    "如果输入超过上下文长度，接口会返回 400",
    "为什么会提示输入过长？",
    '{"role": "tool", "content": "prompt is too long: 213000 tokens > 200000 maximum"}',
]


@pytest.mark.parametrize(("text", "limit", "requested"), OVERFLOWS)
def test_m18_overflow_is_recognised_with_its_numbers(
    text: str, limit: int | None, requested: int | None
) -> None:
    for status in (400, None):
        found = parse_overflow(text, status)
        assert found is not None, text
        assert (found.limit, found.requested) == (limit, requested)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_m22_look_alike_is_not_an_overflow(text: str) -> None:
    assert parse_overflow(text) is None


def test_m18_a_number_is_read_in_every_notation() -> None:
    for number in ("1048576", "1,048,576", "1 048 576", "1.048.576", "１，０４８，５７６", "≈1048576"):
        found = parse_overflow(f"prompt is too long: {number} tokens > 200k maximum", 400)
        assert found == Overflow(200_000, 1_048_576, "input"), number
    assert parse_overflow(
        "maximum context length is 1M tokens, however you requested 1.2M tokens"
    ) == Overflow(1_000_000, 1_200_000, "input")
    assert parse_overflow("输入 20.5万 tokens，超过上限 12.8万") == Overflow(128_000, 205_000, "input")


def test_m18_an_excess_or_an_error_code_is_not_taken_for_a_limit() -> None:
    assert parse_overflow("prompt too long; exceeds the context window by 512 tokens") == Overflow(
        None, None, "input"
    )
    assert parse_overflow("输入超出了 512 个 token") is not None
    assert parse_overflow("context window exceeds limit (2013)") == Overflow(None, None, "input")
    assert parse_overflow("status code 400: input is too long (error code 3051)") == Overflow(
        None, None, "input"
    )


@pytest.mark.parametrize("status", [300, 401, 402, 403, 404, 409, 429])
def test_m21_other_statuses_are_never_an_overflow(status: int) -> None:
    assert parse_overflow("prompt is too long: 9000 tokens > 8192 maximum", status) is None


@pytest.mark.parametrize("status", [None, 200, 400, 413, 422, 500, 502, 503])
def test_m21_a_clear_text_is_an_overflow_through_any_relay(status: int | None) -> None:
    assert parse_overflow("prompt is too long: 9000 tokens > 8192 maximum", status) is not None


def test_m21_a_vague_text_needs_the_status_to_agree() -> None:
    vague = "Too many tokens."
    assert parse_overflow(vague, 400) is not None
    assert parse_overflow(vague) is None
    assert parse_overflow(vague, 500) is None


@pytest.mark.parametrize(
    "text", ["Bad Request", "Invalid parameter", "", "{}", "[]", "null", "参数错误", "{'error': {}}"]
)
def test_m21_a_bare_400_edits_nothing(text: str) -> None:
    assert parse_overflow(text, 400) is None
    assert parse_overflow({"error": {"message": text, "code": 400}}) is None


def test_m21_a_400_without_a_body_is_an_overflow_only_when_it_says_so() -> None:
    assert parse_overflow("400 status code (no body)", 400) == Overflow(None, None, "input")
    assert parse_overflow("401 status code (no body)", 401) is None


CAP_FILLS = (
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 138956 tokens "
    "(7884 of text input, 131072 in the output)."
)


def test_case_57_the_output_cap_is_the_cause() -> None:
    assert parse_overflow(CAP_FILLS, 400) == Overflow(131_072, 138_956, "output")
    lowered = CAP_FILLS.replace("131072 in the output", "4096 in the output").replace("7884", "127500")
    found = parse_overflow(lowered.replace("138956", "131596"), 400)
    assert found == Overflow(131_072, 131_596, "combined")


@pytest.mark.parametrize(("cap", "given"), [(4096, 29_000), (16_000, 17_000)])
def test_m17_a_cap_that_fits_leaves_the_history_to_blame(cap: int, given: int) -> None:
    text = (
        f"'max_tokens' is too large: {cap}. This model's maximum context length is 32768 tokens and your "
        f"request has {given} input tokens ({cap} > 32768 - {given})."
    )
    assert parse_overflow(text, 400) == Overflow(32_768, given, "combined")
    assert (
        parse_overflow(text.replace(str(cap), "40000"), 400) is None
    )  # no history, however short, would fit


class ProviderError(Exception):
    """An SDK's error as openai and anthropic shape it: words, a decoded body, a status."""

    def __init__(self, message: str, body: object = None, status_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.body = body
        self.status_code = status_code


class ContextOverflowError(Exception):
    pass


class RateLimitError(ProviderError):
    pass


def test_g33_an_exception_is_read_by_words_body_and_cause() -> None:
    body = {"type": "error", "error": {"message": "prompt is too long: 9000 tokens > 8192 maximum"}}
    assert parse_overflow(ProviderError("Error code: 400", body, 400)) == Overflow(8192, 9000, "input")
    wrapped = RuntimeError("model call failed")
    wrapped.__cause__ = ProviderError("Bad request", body, 400)
    assert parse_overflow(wrapped) == Overflow(8192, 9000, "input")
    assert parse_overflow(ContextOverflowError("refused")) == Overflow(None, None, "input")
    assert parse_overflow(ProviderError("unauthorised", body, 401)) is None
    assert parse_overflow(RateLimitError("slow down", body)) is None
    assert parse_overflow(ValueError("unrelated")) is None


def test_g33_real_sdk_exceptions_are_read() -> None:
    httpx = pytest.importorskip("httpx")
    openai = pytest.importorskip("openai")
    anthropic = pytest.importorskip("anthropic")
    request = httpx.Request("POST", "http://127.0.0.1/v1")
    for sdk in (openai, anthropic):
        body = {"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum", "type": "invalid"}}
        response = httpx.Response(400, json=body, request=request)
        error = sdk.BadRequestError(f"Error code: 400 - {body}", response=response, body=body)
        assert parse_overflow(error) == Overflow(8192, 9000, "input")
        streamed = httpx.Response(400, stream=httpx.ByteStream(b"{}"), request=request)
        unread = sdk.BadRequestError("input is too long", response=streamed, body=None)
        assert parse_overflow(unread) == Overflow(None, None, "input")
        limited = sdk.RateLimitError(
            "prompt is too long", response=httpx.Response(429, request=request), body=body
        )
        assert parse_overflow(limited) is None


def test_g33_bodies_of_relays_and_local_servers() -> None:
    raw = json.dumps({"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum"}})
    relayed = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    assert parse_overflow(relayed) == Overflow(8192, 9000, "input")
    assert parse_overflow(json.dumps(relayed)) == Overflow(8192, 9000, "input")
    local = {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 5000,
            "n_ctx": 4096,
        }
    }
    assert parse_overflow(local) == Overflow(4096, 5000, "input")
    aws = ProviderError("An error occurred (ValidationException) when calling the Converse operation")
    aws.response = {  # type: ignore[attr-defined]
        "Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    assert parse_overflow(aws) == Overflow(None, None, "input")


def test_m22_a_chat_message_that_quotes_a_refusal_is_not_one() -> None:
    quoted = "prompt is too long: 213000 tokens > 200000 maximum"
    for role in ("assistant", "tool", "user"):
        assert parse_overflow({"role": role, "content": quoted}) is None
    log = "\n".join(f"12:00:0{n} step {n} done, next step is planned" for n in range(9)) * 6
    assert parse_overflow(f"{log}\n{quoted}\n{log}") is None


def test_m17_silent_overflow() -> None:
    assert silent_overflow({"input_tokens": 210_000, "output_tokens": 5}, 200_000, "stop") == Overflow(
        200_000, 210_000, "silent"
    )
    assert silent_overflow({"prompt_tokens": 198_500, "completion_tokens": 0}, 200_000, "length") == Overflow(
        200_000, 198_500, "silent"
    )
    assert silent_overflow({"prompt_tokens": 198_000, "completion_tokens": 0}, 200_000, "length") is not None
    assert silent_overflow({"prompt_tokens": 197_999, "completion_tokens": 0}, 200_000, "length") is None
    assert silent_overflow({"prompt_tokens": 199_000, "completion_tokens": 3}, 200_000, "length") is None
    assert silent_overflow({"prompt_tokens": 200_000, "completion_tokens": 9}, 200_000, "stop") is None
    assert silent_overflow({}, 200_000, "length") is None
    cached = {"input_tokens": 10, "cache_read_input_tokens": 205_000, "output_tokens": 1}
    assert silent_overflow(cached, 200_000, "end_turn") == Overflow(200_000, 205_010, "silent")
    assert (
        silent_overflow({"promptTokenCount": 900_000}, 1_000_000, "model_context_window_exceeded") is not None
    )
    assert silent_overflow({"prompt_tokens": 4096}, 131_072, "stop", sent=20_000) == Overflow(
        None, 20_000, "silent"
    )
    assert silent_overflow({"prompt_tokens": 15_000}, 131_072, "stop", sent=20_000) is None


HOSTILE = [
    "a" * 1_000_000,
    "input " * 170_000,
    "prompt output " * 75_000,
    "1,111 " * 170_000,
    "111 " * 250_000,
    "9" * 1_000_000,
    "exceed your " * 90_000,
    "exceeds " * 125_000,
    '"' * 1_000_000,
    "{" * 500_000 + "}" * 500_000,
    '{"error":' * 9_000 + "1" + "}" * 9_000,
    "[1, " * 250_000,
    "1 > " * 250_000,
    "max_tokens " * 90_000,
    "when the " * 110_000 + "prompt is too long",
    "messages[0].a" * 75_000,
    "超过" * 500_000,
    "`" + "x " * 400_000,
    "context_" * 120_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12] for text in HOSTILE])
def test_m22_a_megabyte_of_hostile_text_costs_no_more_than_an_eighth_of_it(text: str) -> None:
    # A refusal is short: only so much is read. All of these take under 0.3 s of one idle core.
    def read(part: str) -> None:
        for error, status in ((part, None), (part, 400), (ProviderError(part, {"message": part}), None)):
            parse_overflow(error, status)

    assert growth(read, text[: len(text) // 8], text, runs=2) < LINEAR


@given(st.text(max_size=300), st.sampled_from([None, 200, 400, 413, 429, 500]))
def test_m22_any_text_is_answered(text: str, status: int | None) -> None:
    found = parse_overflow(text, status)
    assert found is None or found.kind in {"input", "combined", "output"}


@given(
    limit=st.integers(1024, 10_000_000),
    over=st.integers(1, 1_000_000),
    form=st.sampled_from(["{}", "{:,}", "≈{}", "({})", "about {}"]),
)
def test_m18_stated_numbers_come_back(limit: int, over: int, form: str) -> None:
    asked = limit + over
    texts = (
        f"prompt is too long: {form.format(asked)} tokens > {form.format(limit)} maximum",
        f"maximum context length is {form.format(limit)}, but you requested {form.format(asked)} tokens",
        f"prompt token count of {form.format(asked)} exceeds the limit of {form.format(limit)}",
        f"输入 tokens 数为 {form.format(asked)}，超过最大上下文长度 {form.format(limit)}",
    )
    for text in texts if form != "({})" and not form.startswith(("≈", "about")) else texts[1:3]:
        assert parse_overflow(text, 400) == Overflow(limit, asked, "input"), text


@pytest.mark.skipif(not CORPUS.exists(), reason="needs ../shared")
def test_m18_m21_m22_the_shared_corpus_is_read_without_an_error() -> None:
    wrong: list[str] = []
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        for status in (case.get("status"), None):
            found = parse_overflow(case["text"], status)
            numbers = (found.limit, found.requested) if found else None
            if numbers != ((case["limit"], case["requested"]) if case["is_overflow"] else None):
                wrong.append(f"{case['text'][:80]} ({status}): {found}")
    assert wrong == []


@pytest.mark.parametrize(("text", "limit", "requested"), overflow_variants.OVERFLOWS)
def test_m18_m21_wordings_of_servers_relays_and_sdks_are_read(
    text: str, limit: int | None, requested: int | None
) -> None:
    found = parse_overflow(text)
    assert found is not None
    assert limit == overflow_variants.ANY or found.limit == limit
    assert requested == overflow_variants.ANY or found.requested == requested


@pytest.mark.parametrize("text", overflow_variants.LOOK_ALIKES)
def test_m21_m22_limits_of_another_kind_edit_nothing_even_with_a_400(text: str) -> None:
    assert parse_overflow(text) is None
    assert parse_overflow(text, 400) is None


@pytest.mark.parametrize("text", overflow_variants.QUOTES)
def test_m22_what_tells_of_a_refusal_is_none(text: str) -> None:
    assert parse_overflow(text) is None


@pytest.mark.parametrize(("who", "status", "text", "limit", "requested"), overflow_wordings.OVERFLOWS)
def test_m18_m21_wordings_of_many_services_are_read(
    who: str, status: int, text: str, limit: int | None, requested: int | None
) -> None:
    found = parse_overflow(text, status)
    assert found is not None, who
    assert limit == overflow_wordings.ANY or found.limit == limit
    assert requested == overflow_wordings.ANY or found.requested == requested


@pytest.mark.parametrize(("who", "text"), overflow_wordings.LOOK_ALIKES)
def test_m21_m22_what_many_services_refuse_for_another_reason_edits_nothing(who: str, text: str) -> None:
    assert parse_overflow(text) is None, who
    assert parse_overflow(text, 400) is None, who


@pytest.mark.parametrize("text", overflow_wordings.QUOTES)
def test_m21_m22_an_error_that_quotes_what_the_client_wrote_is_about_something_else(text: str) -> None:
    assert parse_overflow(text) is None
    assert parse_overflow(text, 400) is None


@pytest.mark.parametrize("text", overflow_wordings.WRAPPED)
def test_m18_a_refusal_that_is_handed_on_in_quotation_marks_is_read(text: str) -> None:
    assert parse_overflow(text, 400) == Overflow(8192, 9000, "input")


def test_m21_what_an_exception_quotes_of_the_request_is_not_what_it_says() -> None:
    said = "prompt is too long: 9000 tokens > 8192 maximum"
    body = {"error": {"message": f"Invalid value for 'messages[3].content': '{said}'", "type": "invalid"}}
    assert parse_overflow(ProviderError(f"Error code: 400 - {body}", body, 400)) is None
    assert parse_overflow(ProviderError(f"Error code: 400 - {said}", None, 400)) is not None


@pytest.mark.parametrize(("status", "text", "limit", "requested"), overflow_dialects.OVERFLOWS)
def test_m18_other_dialects_of_a_refusal_are_read(
    status: int | None, text: str, limit: int | None, requested: int | None
) -> None:
    found = parse_overflow(text, status)
    assert found is not None
    assert limit == overflow_dialects.ANY or found.limit == limit
    assert requested == overflow_dialects.ANY or found.requested == requested


@pytest.mark.parametrize(("status", "text"), overflow_dialects.LOOK_ALIKES)
def test_m22_other_look_alikes_are_none(status: int | None, text: str) -> None:
    assert parse_overflow(text, status) is None
