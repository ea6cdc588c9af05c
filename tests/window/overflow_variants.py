"""Refusals as servers, relays and SDKs word them, in our own numbers, and what only looks like one.

A row of `OVERFLOWS` is (text, limit, requested), with 0 for "whatever is read"; a row of
`LOOK_ALIKES` a text that is none even where the status is 400, one of `QUOTES` a text that tells of one.
"""

# ruff: noqa: E501
ANY = 0
Row = tuple[str, int | None, int | None]

HOSTED: list[Row] = [
    (
        "This model's maximum context length is 131072 tokens. However, you requested 128000 output tokens and "
        "your prompt contains at least 3073 input tokens, for a total of at least 131073 tokens. Please reduce "
        "the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, "
        "value=3073)",
        131_072,
        131_073,
    ),
    (
        "Error code: 400 - {'error': {'message': 'Input tokens exceed the configured limit of 272000 tokens. "
        "Your messages resulted in 291333 tokens. Please reduce the length of the messages.', 'type': "
        "'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}",
        272_000,
        291_333,
    ),
    (
        "This model's maximum context length is 4097 tokens, however you requested 4116 tokens (3860 in your "
        "prompt; 256 for the completion). Please reduce your prompt; or completion length.",
        4_097,
        4_116,
    ),
    ("prompt is too long: 1,048,577 tokens > 1,000,000 maximum", 1_000_000, 1_048_577),
    (
        'Anthropic error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too '
        'long: 207791 tokens > 200000 maximum"},"request_id":"req_01"}',
        200_000,
        207_791,
    ),
    (
        '[{"error": {"code": 400, "message": "The input token count (461428) exceeds the maximum number of '
        'tokens allowed (131072).", "status": "INVALID_ARGUMENT"}}]',
        131_072,
        461_428,
    ),
    (
        "400 INVALID_ARGUMENT. Unable to submit request because the input token count is 1100000 but model only "
        "supports up to 1048576. Reduce the input token count and try again.",
        1_048_576,
        1_100_000,
    ),
    ("The prompt (token count: 70001) is larger than the 65536 tokens this model can take.", 65_536, 70_001),
    (
        "Please reduce the length of the messages or completion. Your request has 140321 tokens, the context "
        "window of this model is 131072.",
        131_072,
        140_321,
    ),
    (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072,
        537_812,
    ),
    (
        "Prompt contains 41230 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32_768,
        41_230,
    ),
    (
        "The prompt is too long: 300000, model maximum context length: 262144",
        262_144,
        300_000,
    ),
    ("Input length 200001 exceeds the maximum length 196608", 196_608, 200_001),
    ("input is too long for this model: max 8k tokens, got 12k tokens", 8_000, 12_000),
    (
        "ValidationException: The model returned the following errors: Input is too long for requested model.",
        None,
        None,
    ),
    (
        "An error occurred (ValidationException) when calling the Converse operation: The input exceeds the "
        "model's maximum context of 200000 tokens (received 231207).",
        200_000,
        231_207,
    ),
    (
        "InvokeModel: 400, The number of tokens in the prompt, 12000, is larger than the limit of 8000",
        8_000,
        12_000,
    ),
    (
        "BadRequestError: inputs tokens + max_new_tokens must be <= 4096. Given: 4000 inputs tokens and 512 "
        "max_new_tokens",
        4_096,
        4_000,
    ),
    ("`inputs` must have less than 3000 tokens. Given: 3512", 3_000, 3_512),
    (
        "The total number of tokens in the messages (8,301) plus the requested completion (1,024) is over the "
        "context window (8,192).",
        8_192,
        ANY,
    ),
    ("too many tokens: the request has 129,011 tokens, the limit is 128,000.", 128_000, 129_011),
    ("Request contains 33000 tokens, exceeding the 32768-token context length", 32_768, 33_000),
    (
        "This request would use 210k tokens but the context window for this model is 200k.",
        200_000,
        210_000,
    ),
    ("max_prompt_tokens_exceeded: prompt has 71000 tokens, max is 64000", 64_000, 71_000),
    (
        '{"error":{"message":"prompt token count of 131400 exceeds the limit of 128000","code":'
        '"model_max_prompt_tokens_exceeded"}}',
        128_000,
        131_400,
    ),
    (
        '{"message":"Please reduce the length of the messages or completion. Current length is 8423 while limit '
        'is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}',
        8_192,
        8_423,
    ),
    ("Context window exceeded: 1.05M of 1M tokens", 1_000_000, 1_050_000),
    ("Input validation error: `inputs` tokens must be <= 8191. Given: 9001", 8_191, 9_001),
    ("Maximum context length exceeded. Maximum: 16384; received: 20010 tokens", 16_384, 20_010),
    ("context_length_exceeded", None, None),
    ("The conversation is too long to fit in the model's context window.", None, None),
    ("litellm.BadRequestError: ContextWindowExceededError: prompt exceeds context window", None, None),
    ("Message exceeds context limit. Tokens: 40321, limit: 32000", 32_000, 40_321),
    ("HTTP 422: input_tokens (70000) + max_tokens (8000) > max_model_len (65536)", 65_536, ANY),
    (
        "Requested token count exceeds the model's maximum context length of 40960 tokens. You requested a total "
        "of 42001 tokens: 41001 tokens from the input messages and 1000 tokens for the completion. Please reduce "
        "the number of tokens in the input messages or the completion to fit within the limit.",
        40_960,
        42_001,
    ),
]

LOCAL: list[Row] = [
    (
        '{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the '
        'context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":1407,'
        '"n_ctx":256}}',
        256,
        1_407,
    ),
    (
        "400 request (124071 tokens) exceeds the available context size (123904 tokens), try increasing it",
        123_904,
        124_071,
    ),
    (
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with "
        "context length of only 32768 tokens, which is not enough. Try to load the model with a larger context "
        "length, or provide a shorter input. Error Data: n/a",
        32_768,
        111_490,
    ),
    ("Prompt tokens (9102) exceeds context size (8192)", 8_192, 9_102),
    ("Requested tokens (1025) exceed context window of 512", 512, 1_025),
    ("context size exceeded", None, None),
    ("input length exceeds maximum context length", None, None),
    ("ollama: prompt too long; exceeded max context length by 77 tokens", None, None),
    (
        "ValueError: The decoder prompt (length 40961) is longer than the maximum model length of 40960. Make "
        "sure that `max_model_len` is no smaller than the number of text tokens.",
        40_960,
        40_961,
    ),
    (
        "Input length (33001 tokens) exceeds the maximum allowed length (32767 tokens). Use a shorter input or "
        "enable --allow-auto-truncate.",
        32_767,
        33_001,
    ),
    (
        "the input (516,368 tokens) is longer than the model's context length (262,144 tokens)",
        262_144,
        516_368,
    ),
    ("prompt has 5354 tokens but n_ctx is 4096", 4_096, 5_354),
    (
        "This model's maximum context length is 32768 tokens. However, your request has 33500 input tokens. "
        "Please reduce the length of the input messages.",
        32_768,
        33_500,
    ),
    ("slot context is full: 8200 / 8192 tokens", ANY, ANY),
]

CHINESE: list[Row] = [
    ("该模型的最大上下文长度为 32768 个 token，您的请求共 40211 个 token，请缩短输入。", 32_768, 40_211),
    ("输入 token 数 131,500 超过模型上限 131,072", 131_072, 131_500),
    ("请求失败：上下文超出模型限制（最大 8192 tokens，实际 9001 tokens）", 8_192, 9_001),
    ("提示词过长，最多支持 30720 个 token", 30_720, None),
    ("对话内容过长，已超出模型的最大上下文窗口，请新建对话后重试", None, None),
    ("输入文本过长，请减少输入内容", None, None),
    ("messages 总长度超过模型最大输入限制 6000 tokens", 6_000, None),
    ("参数错误：input tokens 长度超过最大限制 128k", 128_000, None),
    ("token数量超出限制：当前 20.5万，上限 20万", 200_000, 205_000),
    ("上下文窗口溢出：需要 210000 tokens，窗口为 200000 tokens", 200_000, 210_000),
    ("错误码 400：输入的 tokens 总数（含历史消息）不能超过 65536，当前为 70020", 65_536, 70_020),
    ("请求的总 token 数超过了该模型的上下文长度限制", None, None),
    ("历史消息过长，超出模型可处理的上下文长度", None, None),
    ('{"error":{"code":"context_length_exceeded","message":"输入超过上下文长度"}}', None, None),
    ("输入超出最大长度限制，请精简后重试", None, None),
    ("單次請求的 token 數（150000）超過模型上下文長度（128000）", 128_000, 150_000),
]

OTHER_LANGUAGES: list[Row] = [
    (
        "Die Eingabe ist zu lang: 210.000 Token, die maximale Kontextlänge beträgt 200.000 Token.",
        200_000,
        210_000,
    ),
    ("Der Prompt überschreitet das Kontextfenster des Modells (131072 Token).", 131_072, None),
    ("L'entrée dépasse la fenêtre de contexte du modèle (131072 jetons).", 131_072, None),
    ("Le prompt est trop long : 210 000 tokens, maximum 200 000 tokens.", 200_000, 210_000),
]

MORE: list[Row] = [
    ("Prompt length 40000 exceeds max_seq_len 32768 of the deployment.", 32768, 40000),
    (
        "This endpoint's maximum context length is 163840 tokens. However, you requested about 190211 tokens (182019 of text input, 8192 of tool input). Please reduce the length of either one.",
        163840,
        190211,
    ),
    (
        '{"detail":"Input is too long. Max input length is 32000 tokens, input length is 40111 tokens"}',
        32000,
        40111,
    ),
    ("Your input is longer than the model's context length (8192 tokens). Please shorten it.", 8192, None),
    (
        '{"error":{"message":"Request too large. Max context is 128000 tokens; you sent 131023 tokens.","type":"invalid_request_error"}}',
        128000,
        131023,
    ),
    ("Error: input_tokens_limit_exceeded limit=1000000 actual=1000345", 1000000, 1000345),
    ("Model context window (200000) exceeded by request of 201333 tokens", 200000, 201333),
    (
        "google.api_core.exceptions.InvalidArgument: 400 The input token count (33000) exceeds the maximum number of tokens allowed (32768).",
        32768,
        33000,
    ),
    (
        "openai.BadRequestError: Error code: 400 - {'object': 'error', 'message': \"This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages, 10000 in the completion). Please reduce the length of the messages or completion. None\", 'type': 'BadRequestError', 'param': None, 'code': 400}",
        16384,
        19591,
    ),
    ("ERROR: prompt has too many tokens (45000). Limit: 40960", 40960, 45000),
    ("message history is too long for the context window, start a new chat", None, None),
    ("Total tokens (150,321) exceed the model limit (131,072)", 131072, 150321),
    ("exceeds the context window", None, None),
    (
        "The request was rejected because the prompt exceeded the maximum context length of 65,536 tokens",
        65536,
        None,
    ),
    ("Token limit exceeded: your prompt has 12345 tokens while the model can only handle 8192", 8192, 12345),
    ("input+output tokens 210000 > context 200000", 200000, 210000),
    ("prompt is too long (250000 tokens; the limit is 200000)", 200000, 250000),
    (
        "This request exceeds the maximum context window for this model. Reduce the size of your request.",
        None,
        None,
    ),
    ("The text you've submitted is too long: 16500 tokens. Maximum is 16385 tokens.", 16385, 16500),
    ("conversation history exceeds 32k token limit", 32000, None),
    ("request (9000 tokens) exceeds n_ctx (8192)", 8192, 9000),
    ("failed to decode: the prompt of 5000 tokens does not fit in the context of 4096", 4096, 5000),
    ("Max context tokens reached: 131072", 131072, None),
    ("max_model_len=32768, prompt_len=40000: prompt is longer than the model length", 32768, 40000),
    ("InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", 30720, None),
    (
        "<400> InternalError.Algo.InvalidParameter: The input length should be in range [1, 6000], got 7000",
        6000,
        7000,
    ),
    ("输入长度（38000）超出了模型支持的最大长度（32768）", 32768, 38000),
    ("当前对话的 tokens 数为 210345，已超过最大上下文 200000，请清理历史消息", 200000, 210345),
    ("Prompt tokens 超过限制: 最大 128000, 当前 139021", 128000, 139021),
    ("模型上下文已满，请开启新对话", None, None),
    ("超过最大输入长度限制，最大支持8192个token", 8192, None),
    ("请求内容过长，请减少上下文后重试", None, None),
    ("消息总token数超出最大限制", None, None),
    ("error 1261: Prompt 超出最大长度", None, None),
    ("输入的总 tokens 长度不得超过 98304，当前输入 102400", 98304, 102400),
    ("context length is only 4096, but 5100 tokens were given", 4096, 5100),
    ("You have exceeded the model's context window. (tokens: 205,014 / 200,000)", 200000, 205014),
    ("Bad Request: token count 131099 is above maximum context size 131072", 131072, 131099),
    ("prompt_tokens=9001 exceeds max_context=8192", 8192, 9001),
    (
        "The sum of prompt tokens (7000) and max tokens (2000) must not exceed the context length (8192)",
        8192,
        0,
    ),
]

OVERFLOWS = HOSTED + LOCAL + CHINESE + OTHER_LANGUAGES + MORE

LOOK_ALIKES: list[str] = [
    "Rate limit reached for model m on input tokens per minute: limit 200000, requested 250000.",
    "Too many tokens requested in the last minute. Current: 130000, maximum: 100000 tokens/min.",
    "You exceeded your current quota of 1,000,000 tokens. Please upgrade your plan.",
    "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only "
    "afford 4096.",
    "Monthly token limit exceeded for this key: 5000000 used of 5000000.",
    "Daily token budget exceeded (2,000,000 tokens).",
    "Your plan allows 100000 tokens a day; you have used 100012.",
    "Request body too large: 33554433 bytes, limit is 33554432 bytes.",
    "413 Request Entity Too Large",
    "messages.0.content.1.image: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes",
    "The request's total size exceeds the limit of 20971520 bytes.",
    "max_tokens (100000) exceeds the model's maximum output of 64000 tokens.",
    "max_completion_tokens is too large: 300000. This model supports at most 128000 completion tokens.",
    "maxOutputTokens must be between 1 and 65536, got 100000",
    "Invalid value for max_output_tokens: 200000 is above the maximum of 128000.",
    "thinking.budget_tokens must be less than max_tokens (budget 32000, max_tokens 16000)",
    "`max_tokens` must be greater than `thinking.budget_tokens`.",
    "max_new_tokens must be <= 2048. Given: 4096",
    "At most 16 image(s) may be provided in one request.",
    "too many images: 101 > 100 maximum",
    "Too many tools: 140, the maximum is 128.",
    "messages: at least one message is required",
    "tool name too long: 80 characters, at most 64",
    "Invalid 'user': string too long. Expected a string with maximum length 64, got 75.",
    "prompt_cache_key is too long: 90 characters, maximum 64",
    "The API key is too long.",
    "Request timed out after 600 seconds while generating a response of 16000 tokens.",
    "The response was cut off because max_tokens (4096) was reached.",
    "Output was truncated: the answer reached the limit of 8192 output tokens.",
    "Model m is not found. Available: m-32k, m-128k.",
    "temperature must be at most 2, got 3",
    "Concurrent request limit exceeded: 11 > 10",
    "The queue is full: 512 requests are waiting.",
    "CUDA out of memory. Tried to allocate 20.00 GiB",
    "Batch size 128 exceeds the maximum of 64 inputs.",
    "Embedding input has 9000 characters; longer than 8192 characters.",
    "Connection reset by peer while sending 200000 bytes",
    "context deadline exceeded",
    "context canceled",
    "Context variable 'user' is too long",
    "The session token has expired",
    "Invalid token: unexpected token < in JSON at position 0",
    "maximum recursion depth exceeded",
    "maximum number of retries exceeded",
    "您的账户余额不足，请充值",
    "请求过于频繁，请稍后再试（每分钟 token 上限 60000）",
    "今日 token 用量已超过限额 1000000",
    "图片大小超过 10MB 限制",
    "max_tokens 参数超出范围：应为 [1, 8192]，实际 10000",
    "文件名过长，最多 64 个字符",
    "并发数超过上限 5",
    "回复过长，已在 4096 个 token 处截断",
    "Das Ratenlimit von 100.000 Token pro Minute wurde überschritten.",
    "Le quota mensuel de 1 000 000 jetons est dépassé.",
    "429 You have exceeded the token limit for this hour (100000).",
    "TPM limit exceeded: 30000 of 20000 tokens",
    "Tokens per minute exceeded. Please retry in 20s.",
    "You've reached your usage limit of 5M tokens.",
    "Usage limit reached. Your limit resets at 5pm.",
    "Claude usage limit reached. Your limit will reset at 3pm.",
    "Request payload size exceeds the limit: 20971520 bytes.",
    "400 The 'content' field exceeds 1048576 characters",
    "File too large: 120 pages, at most 100 PDF pages",
    "max_tokens must be between 1 and 8192",
    "This model supports at most 4096 completion tokens",
    "max_tokens=200000 is greater than the model's output limit of 128000",
    "The max_tokens parameter is too large for this model: 100000 > 65536",
    "Invalid parameter: max_tokens exceeds 32768",
    "invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    "stop sequence too long",
    "Function name exceeds maximum length of 64",
    "system memory exceeded while loading the model with context 131072",
    "image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    "messages: text content blocks must be non-empty",
    "This model does not support tool use",
    "input must not be empty",
    "Response exceeded maximum length; increase max_tokens",
    "The model's output exceeded 64000 tokens and was stopped.",
    "Number of tokens to generate must be positive",
    "organization monthly spend limit reached: 1000 of 1000 USD",
    "limit reached for requests: 60 of 60",
    "Request queue length exceeded: 100",
    "Your credit balance is too low to access the API",
    "max_tokens 值过大，最大 8192",
    "输出长度超过最大限制 8192",
    "请求次数超过限制",
    "您当前的 token 配额已用完",
    "文件大小超过 20MB",
    "输入不能为空",
    "工具数量超过上限 128",
    "验证码错误次数过多",
    "Anfragelimit überschritten, bitte später erneut versuchen",
    "authentication token is too long",
    "JSON nesting too deep: 101 levels, maximum 100",
]

QUOTES: list[str] = [
    "The tool said: \"This model's maximum context length is 8192 tokens. However, your messages resulted in "
    '9000 tokens." I will look into it.',
    "grep found: overflow.py:12: raise ValueError('prompt is too long: 9000 tokens > 8192 maximum')",
    "I saw the error `prompt is too long: 207791 tokens > 200000 maximum` in the log; let us fix the client.",
    "# Troubleshooting\n- If you see context_length_exceeded, shorten the prompt.",
    "The documentation says that the context window is 200000 tokens and prompts over 200000 tokens are refused.",
    "用户在日志里看到“输入长度超过上下文限制”，我们需要排查原因。",
]
