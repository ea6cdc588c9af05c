"""What is an overflow and what only looks like one, in our own sentences and in the shared corpus."""

from pathlib import Path

import pytest

from headwater.window.overflow import parse_overflow

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
        '{"error": {"message": "Bad input", "type": "invalid_request_error", "code": "context_length_exceeded"}}',
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
    'The tool result says: "This model\'s maximum context length is 8192 tokens. However, you requested 9000 tokens."',
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
