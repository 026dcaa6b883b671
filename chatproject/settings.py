"""Every setting of the product, read from the environment; `.env.example` lists them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
if env.bool("READ_DOT_ENV", default=True):
    env.read_env(BASE_DIR / ".env")  # the real environment wins over the file

BAD_VALUES: dict[str, tuple[str, str]] = {}  # name -> (value, what it should be), for chat.checks


def integer(name: str, default: int) -> int:
    """A whole number from the environment; a wrong one is kept for the system check to name."""
    raw = env.str(name, default="").strip()
    if not raw:
        return default
    try:
        return int(raw)
    except ValueError:
        BAD_VALUES[name] = (raw, "a whole number")
        return default


def optional_integer(name: str) -> int | None:
    """A whole number from the environment, or None for an empty value."""
    return integer(name, 0) if env.str(name, default="").strip() else None


def one_of(name: str, default: str, values: list[str]) -> str:
    """One of some words from the environment; another is kept for the system check to name."""
    raw = env.str(name, default="").strip().upper()
    if raw and raw not in values:
        BAD_VALUES[name] = (raw, f"one of {', '.join(values)}")
    return raw if raw in values else default


def boolean(name: str, default: bool) -> bool:
    """true or false from the environment; anything else is kept for the system check to name."""
    raw = env.str(name, default="").strip().lower()
    if not raw:
        return default
    if raw in {"true", "yes", "on", "1"}:
        return True
    if raw not in {"false", "no", "off", "0"}:
        BAD_VALUES[name] = (raw, "true or false")
    return False


# --- Django -----------------------------------------------------------------------------------

DEBUG = boolean("DEBUG", False)
SECRET_KEY = env.str("SECRET_KEY", default="")
HOST = env.str("HOST", default="127.0.0.1")
PORT = integer("PORT", 8000)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "axes",
    "memory.apps.MemoryConfig",
    "chat.apps.ChatConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]

ROOT_URLCONF = "chatproject.urls"
ASGI_APPLICATION = "chatproject.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- Database ---------------------------------------------------------------------------------

SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
        " PRAGMA secure_delete=ON;"
    ),
}
DATABASE_POOL_SIZE = integer("DATABASE_POOL_SIZE", 20)


def database_settings() -> dict[str, Any]:
    """The connection that DATABASE_URL names, with what each engine needs to be safe and fast."""
    config = env.db_url("DATABASE_URL", default=f"sqlite:///{BASE_DIR / 'db.sqlite3'}")
    if not str(config.get("ENGINE")).endswith(("sqlite3", "postgresql", "mysql")):
        raise ImproperlyConfigured(
            "DATABASE_URL names no database that is known here: use sqlite:////path,"
            " postgres://user:password@host/name or mysql://user:password@host/name."
        )
    # Under ASGI every request has a thread of its own, so a connection that outlives its request
    # is left over: PostgreSQL's come from a pool, the others are closed; chat.hops keeps its own.
    config["CONN_MAX_AGE"] = 0
    config["CONN_HEALTH_CHECKS"] = True
    options = config.setdefault("OPTIONS", {})
    if config["ENGINE"].endswith("sqlite3"):
        config["OPTIONS"] = {**SQLITE_OPTIONS, **options}
    elif config["ENGINE"].endswith("postgresql"):
        pool = {"min_size": 1, "max_size": max(DATABASE_POOL_SIZE, 1), "timeout": 10}
        options.setdefault("pool", pool)
    elif config["ENGINE"].endswith("mysql"):
        use_pymysql()
        options.setdefault("charset", "utf8mb4")
        options.setdefault("init_command", "SET time_zone = '+00:00', sql_mode = 'TRADITIONAL'")
        options.setdefault("isolation_level", "read committed")
    return config


def use_pymysql() -> None:
    """MariaDB and MySQL through PyMySQL, which installs without a compiler."""
    import pymysql

    pymysql.version_info = (2, 2, 7, "final", 0)  # the mysqlclient API that it stands in for
    pymysql.install_as_MySQLdb()


DATABASES = {"default": database_settings()}

# --- Redis: fan-out between processes and the shared cache --------------------------------------

REDIS_URL = env.str("REDIS_URL", default="")
WEB_CONCURRENCY = integer("WEB_CONCURRENCY", 1)  # server processes, as process managers say it
if REDIS_URL:
    CHANNEL_LAYERS: dict[str, Any] = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL], "prefix": "chat"},
        }
    }
    CACHES: dict[str, Any] = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": "chat",
        }
    }
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# --- Signing in ---------------------------------------------------------------------------------

LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_FAILURE_LIMIT = AXES_FAILURE_LIMIT = integer("LOGIN_FAILURE_LIMIT", 10)
AXES_COOLOFF_TIME = 1  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_TEMPLATE = "registration/locked_out.html"
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False

# --- Browser security ---------------------------------------------------------------------------

HTTPS = boolean("HTTPS", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = boolean("SECURE_SSL_REDIRECT", HTTPS)
SECURE_REDIRECT_EXEMPT = [r"^demo-model/"]  # this server calls itself over plain HTTP
SECURE_HSTS_SECONDS = integer("SECURE_HSTS_SECONDS", 31536000 if HTTPS else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
if boolean("BEHIND_TLS_PROXY", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "manifest-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- Files, languages, time ---------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = boolean("SERVE_STATIC_FROM_SOURCE", DEBUG)
WHITENOISE_AUTOREFRESH = DEBUG
MEDIA_ROOT = env.str("CHAT_MEDIA_ROOT", default="") or BASE_DIR / "media"
STORAGES = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    },
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
LANGUAGE_CODE = "en"
TIME_ZONE = env.str("TIME_ZONE", default="UTC")
USE_I18N = True
USE_TZ = True

# --- REST API -----------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["chat.api.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["chat.api.bodies.JsonParser"],
    "DEFAULT_THROTTLE_CLASSES": ["chat.api.throttles.RequestThrottle"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "chat.api.problems.exception_handler",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Chat API",
    "VERSION": "1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "TurnStatus": "chat.models.ChatTurn.Status",
        "PreferenceStatus": "memory.models.UserPreference.Status",
        "PreferenceOrigin": "memory.models.UserPreference.Origin",
        "DigestOrigin": ["model", "user", "admin"],
        "PreferenceSwitch": ["active", "disabled"],
    },
}

CHAT_REQUESTS_PER_MINUTE = integer("CHAT_REQUESTS_PER_MINUTE", 600)

# --- Model endpoint from the environment ----------------------------------------------------------

OPENAI_API_KEY_SET = bool(env.str("OPENAI_API_KEY", default=""))  # the key itself stays outside
OPENAI_BASE_URL = env.str("OPENAI_BASE_URL", default="")
OPENAI_MODEL = env.str("OPENAI_MODEL", default="")
DEMO_MODEL_ENABLED = boolean("DEMO_MODEL_ENABLED", False)
DEMO_MODEL_DELAY_MS = integer("DEMO_MODEL_DELAY_MS", 20)
DEMO_MODEL_RECORD = boolean("DEMO_MODEL_RECORD", False)
CHAT_ALLOW_PRIVATE_ENDPOINTS = boolean("CHAT_ALLOW_PRIVATE_ENDPOINTS", DEBUG)

# --- Memory ---------------------------------------------------------------------------------------

CHAT_MEMORY_ENABLED = boolean("CHAT_MEMORY_ENABLED", True)
CHAT_MEMORY_MAX_MESSAGES = integer("CHAT_MEMORY_MAX_MESSAGES", 20)
CHAT_MEMORY_MAX_TOKENS = optional_integer("CHAT_MEMORY_MAX_TOKENS")
CHAT_MEMORY_PERSISTENCE_ENABLED = boolean("CHAT_MEMORY_PERSISTENCE_ENABLED", True)
CHAT_MEMORY_SUMMARIZE_ENABLED = boolean("CHAT_MEMORY_SUMMARIZE_ENABLED", False)
CHAT_MEMORY_AUTO_CLEANUP_DAYS = integer("CHAT_MEMORY_AUTO_CLEANUP_DAYS", 0)
CHAT_MEMORY_IDLE_DAYS = integer("CHAT_MEMORY_IDLE_DAYS", 7)
CHAT_TEMPORARY_HOURS = integer("CHAT_TEMPORARY_HOURS", 24)
CHAT_CONTEXT_MARGIN_PERCENT = integer("CHAT_CONTEXT_MARGIN_PERCENT", 2)
CHAT_REFERENCE_SOURCES = env.list("CHAT_REFERENCE_SOURCES", default=["chat.documents.passages"])
CHAT_REFERENCE_PASSAGES = integer("CHAT_REFERENCE_PASSAGES", 5)
CHAT_DOCUMENT_MAX_BYTES = integer("CHAT_DOCUMENT_MAX_BYTES", 1_000_000)
CHAT_DOCUMENTS_MAX_BYTES = integer("CHAT_DOCUMENTS_MAX_BYTES", 5_000_000)

# --- Summaries, titles, preferences: made after a turn -------------------------------------------

CHAT_MEMORY_STORE = env.str("CHAT_MEMORY_STORE", default="memory.stores.DatabaseStore")
CHAT_SUMMARY_MAX_TOKENS = integer("CHAT_SUMMARY_MAX_TOKENS", 800)
CHAT_SUMMARY_CHUNK_TOKENS = integer("CHAT_SUMMARY_CHUNK_TOKENS", 6_000)
CHAT_DIGEST_ENABLED = boolean("CHAT_DIGEST_ENABLED", True)
CHAT_TITLES_ENABLED = boolean("CHAT_TITLES_ENABLED", True)
CHAT_TITLE_PROMPT = env.str("CHAT_TITLE_PROMPT", default="")
CHAT_PREFERENCES_MODE = env.str("CHAT_PREFERENCES_MODE", default="confirm")
CHAT_PREFERENCE_TOKENS = integer("CHAT_PREFERENCE_TOKENS", 800)
CHAT_FOLLOW_UPS_IN_WEB = boolean("CHAT_FOLLOW_UPS_IN_WEB", True)
CHAT_FOLLOW_UP_TASKS = integer("CHAT_FOLLOW_UP_TASKS", 2)
CHAT_FOLLOW_UP_SECONDS = integer("CHAT_FOLLOW_UP_SECONDS", 120)

# --- Search --------------------------------------------------------------------------------------

CHAT_SEARCH_EMBEDDINGS = env.str("CHAT_SEARCH_EMBEDDINGS", default="")

# --- Tools ---------------------------------------------------------------------------------------

CHAT_TOOLS = env.list(
    "CHAT_TOOLS",
    default=[
        "chat.tools.clock.CURRENT_TIME",
        "chat.tools.preferences.REMEMBER",
        "chat.tools.preferences.FORGET",
        "chat.tools.history.SEARCH_HISTORY",
    ],
)
CHAT_TOOL_ROUNDS = integer("CHAT_TOOL_ROUNDS", 5)
CHAT_TOOL_SECONDS = integer("CHAT_TOOL_SECONDS", 20)
CHAT_TOOL_RESULT_CHARS = integer("CHAT_TOOL_RESULT_CHARS", 8_000)

# --- Staff ---------------------------------------------------------------------------------------

CHAT_STAFF_CONTENT = boolean("CHAT_STAFF_CONTENT", True)
CHAT_READ_REASON_REQUIRED = boolean("CHAT_READ_REASON_REQUIRED", False)
CHAT_REVIEW_CLAIM_HOURS = integer("CHAT_REVIEW_CLAIM_HOURS", 8)

# --- Turns ----------------------------------------------------------------------------------------

CHAT_LEASE_SECONDS = integer("CHAT_LEASE_SECONDS", 15)
CHAT_TURN_SECONDS = integer("CHAT_TURN_SECONDS", 300)
CHAT_CONNECT_SECONDS = integer("CHAT_CONNECT_SECONDS", 10)
CHAT_FIRST_TOKEN_SECONDS = integer("CHAT_FIRST_TOKEN_SECONDS", 60)
CHAT_GAP_SECONDS = integer("CHAT_GAP_SECONDS", 60)
CHAT_DRAIN_SECONDS = integer("CHAT_DRAIN_SECONDS", 10)
CHAT_EXECUTOR_THREADS = integer("CHAT_EXECUTOR_THREADS", 4)
CHAT_EXECUTOR_QUEUE = integer("CHAT_EXECUTOR_QUEUE", 200)
CHAT_PROOF_KEY = env.str("CHAT_PROOF_KEY", default="") or SECRET_KEY

# --- Attachments ----------------------------------------------------------------------------------

CHAT_MAX_ATTACHMENT_BYTES = integer("CHAT_MAX_ATTACHMENT_BYTES", 5 * 1024 * 1024)
CHAT_MAX_REQUEST_IMAGE_BYTES = integer("CHAT_MAX_REQUEST_IMAGE_BYTES", 20 * 1024 * 1024)

# --- Exports --------------------------------------------------------------------------------------

CHAT_EXPORT_ROWS_INLINE = integer("CHAT_EXPORT_ROWS_INLINE", 50_000)
CHAT_EXPORT_HOURS = integer("CHAT_EXPORT_HOURS", 24)

# --- Websocket ------------------------------------------------------------------------------------

CHAT_MAX_MESSAGE_CHARS = integer("CHAT_MAX_MESSAGE_CHARS", 200_000)
CHAT_MAX_FRAME_BYTES = integer("CHAT_MAX_FRAME_BYTES", 1_048_576)
CHAT_FRAMES_PER_MINUTE = integer("CHAT_FRAMES_PER_MINUTE", 240)
CHAT_TURNS_PER_MINUTE = integer("CHAT_TURNS_PER_MINUTE", 30)
CHAT_SOCKETS_PER_USER = integer("CHAT_SOCKETS_PER_USER", 50)
CHAT_IDLE_SECONDS = integer("CHAT_IDLE_SECONDS", 3600)

# --- Logging --------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {
        "handlers": ["console"],
        "level": one_of("LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR"]),
    },
    "loggers": {
        "axes": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        # Tries again every second and logs a traceback each time; chat.events says it once.
        "channels_redis.pubsub": {"level": "CRITICAL"},
    },
}
# MariaDB makes whole indexes of those that elsewhere hold few rows: they answer all the same.
SILENCED_SYSTEM_CHECKS = ["models.W037"]
