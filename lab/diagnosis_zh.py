"""A diagnosis in Chinese: the same findings, said from their figures."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from headwater.lab.diseases import Finding, quoted

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "amnesia": "失忆",
        "myopia": "近视",
        "squeeze-out": "挤占",
        "cache fault": "缓存失误",
        "repeat work": "重复劳动",
        "garbage": "无用负担",
    }
)
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "constraint": "约束",
        "exclusion": "排除项",
        "decision": "决定",
        "preference": "偏好",
        "identifier": "标识",
        "planted": "植入的事实",
    }
)


class Said(NamedTuple):
    """A finding in words."""

    disease: str
    evidence: str
    remedy: str


def in_chinese(finding: Finding) -> Said:
    """A finding's name, evidence and remedy in Chinese; what was recorded is quoted as it stands."""
    say = _SAYS[finding.disease]
    return Said(NAMES[finding.disease], *say(finding, dict(finding.detail)))


def _fact(detail: Mapping[str, Any]) -> str:
    return f"{KINDS.get(detail['kind'], detail['kind'])} {quoted(detail['fact'])}"


def _amnesia(finding: Finding, d: Mapping[str, Any]) -> tuple[str, str]:
    used = "" if d["pin"] else f"；第 {finding.step} 步的回答用到了它"
    evidence = (
        f"{_fact(d)}：从第 {d['first']} 步起，有 {d['absent']} 步的输入中没有它；"
        f"最后一次出现在第 {d['left']} 步{used}"
    )
    if d["pin"]:
        return evidence, "钉住它：用户定下的规则应逐字写入任务便笺，出现在每个请求中"
    return evidence, "曾经重要：使用前先用 ctx_search 取回；若常被用到就钉住"


def _myopia(_: Finding, d: Mapping[str, Any]) -> tuple[str, str]:
    return (
        f"{_fact(d)}：连续 {d['steps']} 步只出现在输入的中间三分之一；"
        f"第 {d['at']} 步时距开头 {d['before']:,} token，距结尾 {d['behind']:,} token",
        "移到一端：钉住（开头），或在最新消息中重复；长文档分页读取。更大的窗口只会更糟",
    )


def _squeeze_out(_: Finding, d: Mapping[str, Any]) -> tuple[str, str]:
    if "tools" in d:
        return (
            f"先前步骤有过的工具定义少了 {d['before'] - d['tools']:,} token",
            "工具定义从不让位：它们排在一切会增长的内容之前",
        )
    cut = f"；{d['cut']} 个回答被截断" if d["cut"] else ""
    return (
        f"有 {d['steps']} 步的输入占用了留给回答的空间；第 {d['at']} 步占用 {d['over']:,} token，"
        f"窗口 {d['window']:,} 中发送了 {d['sent']:,}{cut}",
        "守住预留：在其下的水位线就行动（WindowPolicy），不要等服务商拒绝",
    )


def _cache_fault(finding: Finding, d: Mapping[str, Any]) -> tuple[str, str]:
    if d["why"] == "cold gap":
        return (
            f"间隔 {d['gap'] / 60:,.0f} 分钟后缓存已过期：重发 {d['tokens']:,} token，"
            f"比缓存有效时多花 {finding.price:,.0f}",
            "缓存过期时正好可以免费放下不需要的内容：加以治理，少重发一些；或购买更长的缓存时间",
        )
    where = "在记录之外"
    if d["block"]:
        where = f"在第 {d['part'] + 1} 部分（{d['block']}：{d['text']!r}）"
    did = f"，因为 {'、'.join(d['moves'])}" if d["moves"] else ""
    return (
        f"有效的缓存前缀{where}断开{did}：重发 {d['tokens']:,} token，"
        f"花费 {finding.price + d['saved']:,.0f}，其中收回 {d['saved']:,.0f}",
        "把编辑排队，等缓存过期或租金达到代价时再执行；绝不改动上一个请求末尾之前的内容",
    )


def _repeat_work(_: Finding, d: Mapping[str, Any]) -> tuple[str, str]:
    return (
        f"{d['call'][:100]!r} 的结果离开输入后又被调用 {len(d['steps'])} 次；"
        f"约 {d['tokens']:,} token 被再次取回",
        "按存根读回结果（file_read、ctx_expand），不要重做",
    )


def _garbage(_: Finding, d: Mapping[str, Any]) -> tuple[str, str]:
    worst = "；".join(
        f"第 {step} 步：{tokens:,} token 携带了 {times} 次（{text!r}）"
        for step, tokens, times, text in d["worst"]
    )
    return (
        f"{d['results']} 个结果一直被携带却从未用到：发送的 {d['sent']:,} token 中占 {d['tokens']:,}"
        f"（{d['share']:.0%}）。{worst}",
        "结果离开保护区后就卸载，并限制进入窗口的大小",
    )


_SAYS: Mapping[str, Callable[[Finding, Mapping[str, Any]], tuple[str, str]]] = MappingProxyType(
    {
        "amnesia": _amnesia,
        "myopia": _myopia,
        "squeeze-out": _squeeze_out,
        "cache fault": _cache_fault,
        "repeat work": _repeat_work,
        "garbage": _garbage,
    }
)
