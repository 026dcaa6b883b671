"""Where a model is reached, and the assistants that use it."""

from decimal import Decimal
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from chat.models.tenants import Tenant

MILLION = Decimal(1_000_000)


def _wrong_with(base_url: str) -> str:
    """Why no endpoint can be reached there; "" for what can be tried. What may be a key is not
    repeated."""
    if not base_url:
        return ""
    if not base_url.startswith(("http://", "https://")):
        return f"{base_url!r} must start with http:// or https://."
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port  # read only now, and wrong ones are told
    except ValueError as error:
        return f"This is no address: {error}."
    if not host or any(each.isspace() for each in base_url):
        return "This is no address: it needs a host, and no blanks."
    if "@" in parts.netloc or parts.query or parts.fragment:
        return (
            "Give the address without name, password, ? and #: a key is never stored, name the"
            " variable that holds it."
        )
    return ""


def price_field() -> models.DecimalField:
    return models.DecimalField(
        max_digits=12,
        decimal_places=6,
        default=Decimal(0),
        validators=[MinValueValidator(Decimal(0))],
        help_text="Per million tokens.",
    )


class ModelEndpoint(models.Model):
    """An OpenAI-compatible endpoint; its key stays in the environment and is named here."""

    class Encoding(models.TextChoices):
        O200K = "o200k_base", "o200k_base (GPT-4o and later)"
        CL100K = "cl100k_base", "cl100k_base (GPT-4, GPT-3.5)"
        ESTIMATE = "estimate", "estimate (other models)"

    name = models.CharField(max_length=100, unique=True)
    base_url = models.CharField(
        max_length=500, blank=True, help_text="Up to and with /v1; empty = the demo model here."
    )
    model = models.CharField(max_length=200)
    api_key_env = models.CharField(
        "API key variable",
        max_length=100,
        blank=True,
        validators=[
            RegexValidator(
                r"^[A-Z][A-Z0-9_]*$", "The NAME of an environment variable, in capitals."
            )
        ],
        help_text="The name of the environment variable that holds the key, never the key itself.",
    )
    context_window = models.PositiveIntegerField(
        default=32768, validators=[MinValueValidator(256)], help_text="Tokens."
    )
    learned_context_window = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Tokens, as the endpoint said when it refused a request; empty = not known.",
    )
    max_output_tokens = models.PositiveIntegerField(
        default=4096,
        validators=[MinValueValidator(1)],
        help_text="Tokens kept free for the answer.",
    )
    encoding = models.CharField(max_length=20, choices=Encoding.choices, default=Encoding.O200K)
    token_correction = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.1), MaxValueValidator(10.0)],
        help_text="Reported tokens / counted tokens.",
    )
    supports_tools = models.BooleanField(default=False)
    supports_vision = models.BooleanField(default=False)
    supports_json_schema = models.BooleanField(
        default=False,
        help_text=(
            "It takes response_format with a JSON Schema. Else an output schema is written into"
            " the system text."
        ),
    )
    strict_roles = models.BooleanField(
        default=False,
        help_text=(
            "It takes no system message, and nothing but user and assistant in turns, a user first."
            " The prompt then stands in a marked block at the head of the first user message."
        ),
    )
    price_input = price_field()
    price_cached_input = price_field()
    price_output = price_field()
    timeout = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Seconds for a whole turn; empty = CHAT_TURN_SECONDS.",
    )
    max_retries = models.PositiveSmallIntegerField(default=2, validators=[MaxValueValidator(10)])
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def cost_of(
        self, input_tokens: int | None, cached: int | None, output_tokens: int | None
    ) -> Decimal | None:
        """What a request cost by today's prices; None when no usage was reported."""
        if input_tokens is None or output_tokens is None:
            return None
        cached = cached or 0
        total: Decimal = (
            self.price_input * (input_tokens - cached)
            + self.price_cached_input * cached
            + self.price_output * output_tokens
        )
        return total / MILLION

    def clean(self) -> None:
        if wrong := _wrong_with(self.base_url):
            raise ValidationError({"base_url": wrong})
        if self.max_output_tokens >= self.context_window:
            raise ValidationError(
                {
                    "max_output_tokens": (
                        f"{self.max_output_tokens} must be smaller than the context window"
                        f" ({self.context_window})."
                    )
                }
            )


class Assistant(models.Model):
    """A prompt, an endpoint and memory settings under a name that people choose."""

    tenant = models.ForeignKey(
        Tenant,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="assistants",
        help_text="Empty = offered in every tenant.",
    )
    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=100)
    endpoint = models.ForeignKey(ModelEndpoint, on_delete=models.PROTECT, related_name="assistants")
    system_prompt = models.TextField(blank=True)
    parameters = models.JSONField(
        default=dict,
        blank=True,
        help_text='Sent with every request, for example {"temperature": 0.2}.',
    )
    memory_enabled = models.BooleanField(default=True)
    max_messages = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Historical messages; empty = CHAT_MEMORY_MAX_MESSAGES.",
    )
    max_tokens = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Tokens of history; empty = CHAT_MEMORY_MAX_TOKENS.",
    )
    stride = models.PositiveIntegerField(
        default=0, help_text="Move the window's start in steps of this many messages; 0 = by one."
    )
    summarize = models.BooleanField(default=False)
    use_preferences = models.BooleanField(default=True)
    tools = models.JSONField(default=list, blank=True, help_text="Names of tools.")
    output_schema = models.JSONField(
        null=True,
        blank=True,
        help_text=(
            "JSON Schema that answers must follow; empty = free text. Each answer is checked, and"
            " one that does not follow it says so."
        ),
    )
    is_default = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.slug == "all":
            raise ValidationError({"slug": "all means every assistant where preferences apply."})
        if not isinstance(self.parameters, dict):
            raise ValidationError({"parameters": "Must be a JSON object."})
        reserved = sorted({"model", "messages", "stream", "stream_options"} & set(self.parameters))
        if reserved:
            raise ValidationError({"parameters": f"{', '.join(reserved)} is set by the product."})
        if self.output_schema is not None:
            self._clean_output_schema()

    def _clean_output_schema(self) -> None:
        if "response_format" in self.parameters:
            raise ValidationError(
                {"parameters": "response_format is set by the output schema; remove one of both."}
            )
        if not isinstance(self.output_schema, dict):
            raise ValidationError({"output_schema": "Must be a JSON object, or empty."})
        if not self.output_schema:
            raise ValidationError({"output_schema": "{} allows any JSON; leave it empty instead."})
        dialect = validator_for(self.output_schema, default=Draft202012Validator)
        try:
            dialect.check_schema(self.output_schema)
        except SchemaError as error:
            where = "/".join(str(each) for each in error.absolute_path)
            raise ValidationError(
                {"output_schema": f"Not a JSON Schema: {error.message[:300]} (at /{where})"}
            ) from None
