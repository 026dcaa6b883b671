"""Telling that a model refused: "I'm sorry, but I can't help with that." is no title."""

from __future__ import annotations

import re

_SORRY = (
    r"(?:i'?m (?:really |very |so )?sorry|i am (?:really |very |so )?sorry|sorry|i apologi[sz]e"
)
_SORRY += r"|unfortunately)\b"
_UNABLE = r"i (?:can't|cannot|can not|couldn't|won't|must decline)|(?:i'm|i am) (?:unable|not able)"
_DO = r"help|assist|comply|provide|create|generate|fulfil|do (?:that|this)|continue|discuss|answer"
_DO += r"|support|engage|name this|title"
_SORRY_ZH = "(?:我)?(?:很|非常|十分|真的)?(?:抱歉|对不起|對不起|不好意思)"
_UNABLE_ZH = "(?:无法|無法|不能|不可以|不便|没有?办法|沒有?辦法)"
_DO_ZH = (
    "提供|协助|協助|帮|幫|回答|满足|滿足|生成|处理|處理|完成|参与|參與|讨论|討論|继续|繼續|创建|为"
)
_REFUSAL = re.compile(
    rf"^{_SORRY}[\s,.!;:–—-]*(?:but\b)?[\s,]*(?:{_UNABLE}|as an ai)\b"
    rf"|^(?:{_UNABLE})\b(?: to)?.{{0,20}}\b(?:{_DO})"
    r"|^as an ai\b"
    rf"|^{_SORRY_ZH}[\s，,。.!！、]*(?:但是?|不过)?[\s，,]*我?(?:暂时|目前|现在)?{_UNABLE_ZH}"
    rf"|^我(?:暂时|目前|现在)?{_UNABLE_ZH}(?:{_DO_ZH})"
    r"|^作为(?:一个|一名)?(?:AI|人工智能|语言模型)",
    re.I,
)


def is_refusal(text: str) -> bool:
    """Whether `text` begins as the refusals of models do, in English or Chinese."""
    return _REFUSAL.match(text.replace("’", "'")) is not None
