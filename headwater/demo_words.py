"""All that the demo says, in English and in Chinese."""

from dataclasses import dataclass
from typing import Any

SYSTEM = {
    "en": "You are a careful engineer who reads large code bases. Work through the tools; say in one "
    "sentence why, "
    "then call.",
    "zh": "你是一名细心的工程师，擅长阅读大型代码库。通过工具工作：先用一句话说明理由，再调用工具。",
}
READER = {
    "en": "You read one module of a code base for somebody else. Your last message is all they will see "
    "of it.",
    "zh": "你替别人阅读代码库中的一个模块。对方只会看到你的最后一条消息。",
}
READER_FOR = {
    "en": "reads one module with list_dir and read_file and returns what matters in it",
    "zh": "用 list_dir 和 read_file 阅读一个模块，返回其中的要点",
}
ROUNDS = {
    "en": (
        "Explore the source of langgraph and langchain_core with list_dir, read_file and search, from "
        'list_dir(".") '
        "on. As soon as you see where the weight lies, delegate the three largest modules to "
        "sub-agents, all three in "
        "one message. Write down with ctx_memory what is worth knowing later. You must not change or run "
        "any code. Take about {steps} steps, then answer in a few lines.",
        "Go on with what has not been read yet, and follow the imports. Take about {steps} steps, then "
        "answer.",
        "Close the work: sum up what you found, in at most twelve lines.",
    ),
    "zh": (
        '用 list_dir、read_file 和 search 探索 langgraph 与 langchain_core 的源码，从 list_dir(".") 开始。'
        "一旦看出重点在哪里，就在同一条消息里把最大的三个模块分别委派给子智能体。"
        "值得长期知道的事实用 ctx_memory 记下来。不得修改或运行任何代码。大约用 {steps} 步，"
        "然后用几行话回答。",
        "继续阅读还没有读过的部分，并沿着导入关系走。大约用 {steps} 步，然后回答。",
        "结束这项工作：用不超过十二行总结你的发现。",
    ),
}
RECALL = {
    "en": "What do you already know about this code base? Answer from memory alone, without any tool.",
    "zh": "关于这个代码库，你已经知道什么？只凭记忆回答，不使用任何工具。",
}

_ENGLISH = {
    "title": "An agent explores {packages}: {files:,} files, {lines:,} lines, through a window of "
    "{window:,} tokens",
    "scripted": "Model: scripted, behind a local server that refuses what real providers refuse; its "
    "window is "
    "{window:,} tokens. No key, no network.",
    "real": "Model: {model}. Its window is taken as {window:,} tokens.",
    "folder": "Folder: {folder}",
    "session": "A second session starts, with the memory folder and nothing else.",
    "steps": "steps",
    "readers": "three readers at work",
    "line": "step {step}/{total}  {meter}",
    "meter": "{estimate:,} of {window:,} tokens, {level}",
    "lines": "lines: offload {offload:,} · compact {compact:,} · exhausted {exhausted:,}",
    "NORMAL": "normal",
    "OFFLOAD": "offload",
    "COMPACT": "compact",
    "EXHAUSTED": "exhausted",
    "arrival": "{tool}: {chars:,} characters never entered the window; stored as {artifact}",
    "offload": "{count} messages left the window ({reason})",
    "summarize": "§{first}§ to §{last}§, {tokens:,} tokens, told in {compartments} compartment(s) by "
    "{sources}",
    "reclaim": "emergency: {count} results left the window",
    "overflow": "the provider refused {requested} tokens (limit {limit}); going out smaller",
    "delegate": "{agent} starts: {brief}",
    "conclusion": "{brief}: {status} after {steps} steps and {tokens:,} tokens",
    "remember": "{written} facts of this round kept, {refused} refused",
    "fact": "{text}",
    "fact_refused": "refused: {reason}",
    "offload_failed": "§{tag}§ stays: {error}",
    "halt": "stopped: {estimate} tokens do not fit",
    "name:arrival": "arrival",
    "name:offload": "offload",
    "name:summarize": "summarise",
    "name:reclaim": "reclaim",
    "name:overflow": "overflow",
    "name:delegate": "delegate",
    "name:conclusion": "conclude",
    "name:remember": "remember",
    "name:fact": "fact",
    "name:fact_refused": "fact",
    "name:offload_failed": "offload",
    "name:halt": "halt",
    "reason:line": "a line was reached",
    "reason:rent": "keeping them had cost as much as moving them",
    "reason:cold": "the cache was cold",
    "reason:identity": "model, prompt or tools changed",
    "source:model": "the summariser",
    "source:digest": "the deterministic digest",
    "said": "The agent's last answer",
    "recalled": "The second session's answer",
    "result": "Result",
    "managed": "with Headwater",
    "unmanaged": "nothing managed",
    "row:steps": "Steps (model calls, sub-agents included)",
    "row:sent": "Tokens sent, summaries included",
    "row:ratio": "Fewer by",
    "row:largest": "Largest request, tokens",
    "row:weighted": "Tokens at cache prices (cached × {read}, written × {write})",
    "row:cached": "Served from the provider's cache",
    "row:raw": "Read through tools, tokens of output",
    "row:fits": "Requests that fit a window of {window:,}",
    "row:offloaded": "Messages offloaded (at arrival, later)",
    "row:summarised": "Messages told in summaries",
    "row:concluded": "Conclusions of sub-agents",
    "row:remembered": "Facts remembered",
    "row:governance": "Spent on summaries, tokens",
    "row:time": "Time, seconds",
    "count:offloaded": "{total:,} ({arrived:,} + {later:,})",
    "count:summarised": "{messages:,} in {compartments:,} compartments",
    "count:fits": "{fit:,} of {all:,}",
    "checks": "Checks",
    "check:ratio": "at least {least} × fewer tokens sent: {ratio:.1f} ×",
    "check:window": "requests over the window: {over:,} of {requests:,}",
    "check:rules": "requests the provider's rules refuse: {broken:,} of {requests:,}",
    "check:stubs": "every offloaded byte reads back: {artifacts:,} artifacts named in the window, "
    "{bytes:,} bytes, "
    "{lost:,} lost",
    "check:archive": "every tool result reads back from the archive: {results:,} results, {bytes:,} "
    "bytes, {lost:,} lost",
    "check:conclusions": "conclusions returned: {found} of {wanted}",
    "check:recall": "a second session starts from memory: {held} of {facts} facts in its first request, "
    "{used} in its "
    "answer",
    "where": "Look at it: {folder}\n  archive.sqlite (every message)   artifacts/ ({artifacts:,} "
    "offloaded texts)   "
    "memory.sqlite and chroma/ (long-term facts)   checkpoints.sqlite",
    "good": "All checks hold.",
    "bad": "{count} check(s) do not hold.",
    "short": "The saving grows with the length of the session over the window: {steps} steps in a "
    "window of {window:,} may be "
    "too few for it; try more --steps, or a smaller --window.",
    "stopped": "Stopped. What was done so far is in {folder}",
    "cut": "This round reached its limit of steps; going on with the next.",
}
_CHINESE = {
    "title": "智能体探索 {packages}：{files:,} 个文件，{lines:,} 行，窗口为 {window:,} 个 token",
    "scripted": "模型：脚本模型，位于本地服务器之后；凡真实服务商会拒绝的请求，它同样拒绝。它的窗口是 "
    "{window:,} 个 token。"
    "不需要密钥，不联网。",
    "real": "模型：{model}。窗口按 {window:,} 个 token 计。",
    "folder": "目录：{folder}",
    "session": "第二个会话开始，只带着记忆目录。",
    "steps": "步",
    "readers": "三个阅读者正在工作",
    "line": "第 {step}/{total} 步  {meter}",
    "meter": "{estimate:,} / {window:,} token，{level}",
    "lines": "水位线：卸载 {offload:,} · 压缩 {compact:,} · 耗尽 {exhausted:,}",
    "NORMAL": "正常",
    "OFFLOAD": "卸载",
    "COMPACT": "压缩",
    "EXHAUSTED": "耗尽",
    "arrival": "{tool}：{chars:,} 个字符没有进入窗口，存为 {artifact}",
    "offload": "{count} 条消息离开窗口（{reason}）",
    "summarize": "§{first}§ 到 §{last}§ 共 {tokens:,} 个 token，由{sources}写成 {compartments} 个分段",
    "reclaim": "紧急回收：{count} 个结果离开窗口",
    "overflow": "服务商拒绝了 {requested} 个 token 的请求（上限 {limit}），缩小后重发",
    "delegate": "{agent} 开始：{brief}",
    "conclusion": "{brief}：{status}，用了 {steps} 步、{tokens:,} 个 token",
    "remember": "本轮写入 {written} 条事实，拒绝 {refused} 条",
    "fact": "{text}",
    "fact_refused": "拒绝写入：{reason}",
    "offload_failed": "§{tag}§ 保留在窗口中：{error}",
    "halt": "已停止：{estimate} 个 token 放不下",
    "name:arrival": "入站",
    "name:offload": "卸载",
    "name:summarize": "摘要",
    "name:reclaim": "回收",
    "name:overflow": "溢出",
    "name:delegate": "委派",
    "name:conclusion": "结论",
    "name:remember": "记忆",
    "name:fact": "事实",
    "name:fact_refused": "事实",
    "name:offload_failed": "卸载",
    "name:halt": "停止",
    "reason:line": "到达水位线",
    "reason:rent": "保留的花费已经等于移出的花费",
    "reason:cold": "缓存已冷",
    "reason:identity": "模型、提示词或工具有变化",
    "source:model": "摘要模型",
    "source:digest": "确定性提要",
    "status:done": "完成",
    "status:partial": "部分完成",
    "status:failed": "失败",
    "status:refused": "被拒绝",
    "status:cancelled": "被取消",
    "said": "智能体的最后回答",
    "recalled": "第二个会话的回答",
    "result": "结果",
    "managed": "使用 Headwater",
    "unmanaged": "不做任何管理",
    "row:steps": "步数（模型调用，含子智能体）",
    "row:sent": "发送的 token（含摘要）",
    "row:ratio": "缩减倍数",
    "row:largest": "最大的请求（token）",
    "row:weighted": "按缓存价格折算的 token（命中 × {read}，写入 × {write}）",
    "row:cached": "由服务商缓存提供",
    "row:raw": "经工具读取的输出（token）",
    "row:fits": "放得进 {window:,} 窗口的请求",
    "row:offloaded": "卸载的消息（入站时 + 之后）",
    "row:summarised": "写入摘要的消息",
    "row:concluded": "子智能体的结论",
    "row:remembered": "记住的事实",
    "row:governance": "摘要花费（token）",
    "row:time": "用时（秒）",
    "count:offloaded": "{total:,}（{arrived:,} + {later:,}）",
    "count:summarised": "{messages:,} 条，{compartments:,} 个分段",
    "count:fits": "{fit:,} / {all:,}",
    "checks": "检查",
    "check:ratio": "发送的 token 至少减少到 1/{least}：实际为 1/{ratio:.1f}",
    "check:window": "超过窗口的请求：{requests:,} 个中有 {over:,} 个",
    "check:rules": "违反服务商规则的请求：{requests:,} 个中有 {broken:,} 个",
    "check:stubs": "卸载的每个字节都能读回：窗口中提到 {artifacts:,} 个文件，{bytes:,} 字节，丢失 "
    "{lost:,} 个",
    "check:archive": "每个工具结果都能从存档读回：{results:,} 个结果，{bytes:,} 字节，丢失 {lost:,} 个",
    "check:conclusions": "返回的结论：{found} / {wanted}",
    "check:recall": "第二个会话从记忆开始：{facts} 条事实中有 {held} 条在它的第一个请求里，{used} "
    "条出现在回答里",
    "where": "可以查看：{folder}\n  archive.sqlite（全部消息）   artifacts/（{artifacts:,} 份卸载的文本）   "
    "memory.sqlite 与 chroma/（长期事实）   checkpoints.sqlite",
    "good": "全部检查通过。",
    "bad": "有 {count} 项检查没有通过。",
    "short": "会话相对窗口越长，节省越多：在 {window:,} 的窗口里 {steps} 步可能太少，请加大 --steps "
    "或减小 --window。",
    "stopped": "已中断。此前的内容在 {folder}",
    "cut": "这一轮到达步数上限，继续下一轮。",
}


@dataclass(frozen=True)
class Words:
    """The demo's sentences in one language, "en" or "zh"."""

    language: str

    def __call__(self, name: str, **values: Any) -> str:
        """The sentence of this name, its fields filled."""
        table = _CHINESE if self.language == "zh" else _ENGLISH
        return table[name].format(**values)

    def of(self, kind: str, value: str) -> str:
        """The word for a value of some kind; the value itself where there is none."""
        table = _CHINESE if self.language == "zh" else _ENGLISH
        return table.get(f"{kind}:{value}", value)

    def event(self, event: dict[str, Any]) -> tuple[str, str] | None:
        """Name and sentence of an event; None for those that are not told."""
        kind = str(event.get("type", "")).removeprefix("headwater.")
        table = _CHINESE if self.language == "zh" else _ENGLISH
        if kind not in table or f"name:{kind}" not in table:
            return None
        values = {k: v if isinstance(v, int) else str(v) for k, v in event.items()}
        if kind in ("offload", "reclaim"):
            if not event["tags"]:
                return None
            values |= {"count": len(event["tags"]), "reason": self.of("reason", str(event.get("reason", "")))}
        elif kind == "summarize":
            joint = "、" if self.language == "zh" else ", "
            values["sources"] = joint.join(dict.fromkeys(self.of("source", s) for s in event["sources"]))
        elif kind == "delegate":
            values["brief"] = str(event["brief"]).partition("\n")[0]
        elif kind == "conclusion":
            values |= {"steps": 0, "tokens": 0, **event["usage"]}
            values["brief"] = str(event.get("brief") or event["session"]).partition("\n")[0]
            values["status"] = self.of("status", str(event["status"]))
        return self(f"name:{kind}"), self(kind, **values)
