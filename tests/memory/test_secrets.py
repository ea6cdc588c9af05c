"""Secrets are refused in both languages, and talk about secrets is not."""

from __future__ import annotations

import pytest

from headwater.memory.fact import SecretRefused
from headwater.memory.memory import Memory
from headwater.memory.secrets import find_secret

# Put together here, so that no scanner takes this file for a leak.
SECRETS = [
    "use sk-" + "proj-" + "a1B2" * 8,
    "key: sk-" + "ant-api03-" + "Zz9_" * 8,
    "AKIA" + "ABCDEFGHIJ234567",
    "ghp_" + "a1B2c3" * 6,
    "github_pat_" + "11ABC" * 8,
    "glpat-" + "x1y2z3w4" * 3,
    "xoxb-" + "123456789012-abcdef",
    "AIza" + "B" * 35,
    "hf_" + "AbCd" * 9,
    "LTAI" + "5tAbCdEfGhIj",
    "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE",
    "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
    "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + ".abcDEF123_-xyz",
    "Authorization: Bearer " + "abcdef0123456789abcdef",
    "postgresql://admin:" + "s3cr3tPw@db.internal:5432/app",
    "redis://:" + "p4ssw0rd@cache:6379",
    "password = " + "hunter2",
    "DB_PASSWORD=" + "'correct-horse-9'",
    'the "password": "' + 'Tr0ub4dor&3"',
    "password is " + "hunter2000",
    "pwd: " + "123456",
    "密码：" + "hunter2_Prod",
    "数据库密码是 " + "abc12345",
    "口令=" + "Qwe!23",
    "访问令牌：" + "a8f5f167f44f4964e6c998dee827110c",
    "api_key: " + "a8f5f167f44f4964e6c998dee827110c",
    "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
]
PLAIN = [
    "passwords must have at least 12 characters",
    "The password field is required",
    "密码不能少于 12 位，必须包含数字",
    "密码是必填项",
    "token 的有效期是 3600 秒",
    "密钥保存在 Vault 里，每 90 天轮换一次",
    "max_tokens = 8192",
    "token: 4096",
    "password: ${DB_PASSWORD}",
    "password = <your password>",
    "password: ********",
    "password=os.environ['DB_PASSWORD']",
    "api_key = settings.openai.api_key",
    "the API key is read from OPENAI_API_KEY",
    "secret: see vault/app/prod",
    "postgresql://localhost:5432/app",
    "https://example.com:8443/path?x=1",
    "postgresql://user:${PASSWORD}@host/db",
    "commit 3f2a9c1b7d, sha256 a8f5f167f44f4964e6c998dee827110c",
    "use sk-learn and sk_learn for the model",
    "tokenizer: o200k_base",
    "the token bucket is 100 requests a minute",
    "password: string, at least 8 long",
    "公钥放在 keys/public.pem",
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_found(text: str) -> None:
    assert find_secret(f"note to self, {text}") is not None
    assert find_secret(f"记住：{text}") is not None


@pytest.mark.parametrize("text", PLAIN)
def test_talk_about_secrets_is_not_a_secret(text: str) -> None:
    assert find_secret(text) is None


def test_a_secret_is_refused_without_being_repeated(memory: Memory) -> None:
    with pytest.raises(SecretRefused) as raised:
        memory.facts.write("the staging password: " + "hunter2_Prod", "CONFIG_VALUES")
    assert "hunter2" not in str(raised.value)
    assert "leave it out" in str(raised.value)
    assert memory.facts.count() == 0
