/* Every endpoint: X(path, method, right, dialect, serve, summary, request, answer). Include it with X
 * defined; GET /openapi.json is made from it too. method is GET, which HEAD may be as well, or POST. right: who may
 * come, where there are API keys: OPEN all, CLIENT keys with the role client or admin, ADMIN those with the role admin,
 * METRICS as --metrics says. dialect: of its errors, and of its request, as dialects_table.h names it. {id} in a path
 * stands for one or more characters; slashes may be among them. request and answer are names of schemas in openapi.c;
 * NULL: none, or text. */
X("/v1/chat/completions", POST, CLIENT, chat, post_answer, "Answer a conversation", "ChatRequest", "ChatAnswer")
X("/v1/completions", POST, CLIENT, text, post_answer, "Continue a text", "TextRequest", "TextAnswer")
X("/v1/responses", POST, CLIENT, responses, post_answer, "Answer a conversation, as OpenAI's responses",
  "ResponsesRequest", "ResponsesAnswer")
X("/v1/messages", POST, CLIENT, messages, post_answer, "Answer a conversation, as Anthropic's messages",
  "MessagesRequest", "MessagesAnswer")
X("/v1/messages/count_tokens", POST, CLIENT, count, post_count, "How many tokens the prompt of a conversation has",
  "CountRequest", "Object")
X("/completion", POST, CLIENT, llama, post_answer, "Continue a text, as llama.cpp's server", "LlamaRequest",
  "LlamaAnswer")
X("/completions", POST, CLIENT, llama, post_answer, "The same", "LlamaRequest", "LlamaAnswer")
X("/api/chat", POST, CLIENT, ollama_chat, post_answer, "Answer a conversation, as ollama", "OllamaChatRequest",
  "OllamaAnswer")
X("/api/generate", POST, CLIENT, ollama_text, post_answer, "Answer a prompt, as ollama", "OllamaTextRequest",
  "OllamaAnswer")
X("/api/tags", GET, CLIENT, ollama_chat, gw_pages_ollama_tags, "The model, as ollama lists it", NULL, "Object")
X("/api/show", POST, CLIENT, ollama_chat, post_ollama_show, "Facts of the model, as ollama tells them",
  "OllamaShowRequest", "Object")
X("/api/ps", GET, CLIENT, ollama_chat, gw_pages_ollama_ps, "The model, which is loaded, as ollama lists it", NULL,
  "Object")
X("/api/version", GET, OPEN, ollama_chat, gw_pages_ollama_version, "This program's version, as ollama tells its own",
  NULL, "Object")
X("/tokenize", POST, CLIENT, chat, post_tokenize, "The token ids of a text", "TokenizeRequest", "Object")
X("/detokenize", POST, CLIENT, chat, post_detokenize, "The text of token ids", "DetokenizeRequest", "Object")
X("/apply-template", POST, CLIENT, chat, post_template, "The text that a conversation becomes", "ChatRequest", "Object")
X("/v1/models", GET, CLIENT, chat, gw_pages_models, "The names of the model", NULL, "Models")
X("/v1/models/{id}", GET, CLIENT, chat, gw_pages_model, "One name of the model", NULL, "Model")
X("/props", GET, CLIENT, chat, gw_pages_props, "The settings of requests that do not give them", NULL, "Object")
X("/v1/status", GET, CLIENT, chat, gw_pages_status,
  "Whether the gateway is ready, its model and counts; for role=admin its queue and its nodes too", NULL, "Object")
X("/v1/nodes/{id}/role", POST, ADMIN, chat, gw_roles_post, "Let a node serve in another role", "RoleRequest", "Object")
X("/metrics", GET, METRICS, chat, gw_pages_metrics, "Metrics as Prometheus reads them", NULL, NULL)
X("/health", GET, OPEN, chat, gw_pages_health, "200 when a request would succeed", NULL, "Object")
X("/v1/health", GET, OPEN, chat, gw_pages_health, "The same", NULL, "Object")
X("/openapi.json", GET, OPEN, chat, gw_pages_openapi, "This description", NULL, "Object")
X("/v1/openapi.json", GET, OPEN, chat, gw_pages_openapi, "The same", NULL, "Object")
X("/", GET, OPEN, chat, gw_pages_root, "What serves here, in words", NULL, NULL)
