/* Every endpoint: X(path, method, open, serve, summary, request, answer). Include it with X defined; GET /openapi.json
 * is made from it too. method is GET, which HEAD may be as well, or POST. open: no API key needed. {id} in a path
 * stands for one or more characters; slashes may be among them. request and answer are names of schemas in openapi.c;
 * NULL: none, or text. */
X("/v1/chat/completions", POST, false, post_chat, "Answer a conversation", "ChatRequest", "ChatAnswer")
X("/v1/completions", POST, false, post_text, "Continue a text", "TextRequest", "TextAnswer")
X("/v1/models", GET, false, gw_pages_models, "The names of the model", NULL, "Models")
X("/v1/models/{id}", GET, false, gw_pages_model, "One name of the model", NULL, "Model")
X("/props", GET, false, gw_pages_props, "The settings of requests that do not give them", NULL, "Object")
X("/v1/status", GET, false, gw_pages_status, "The gateway, its queue and its nodes", NULL, "Object")
X("/v1/nodes/{id}/role", POST, false, gw_roles_post, "Let a node serve in another role", "RoleRequest", "Object")
X("/metrics", GET, false, gw_pages_metrics, "Metrics as Prometheus reads them", NULL, NULL)
X("/health", GET, true, gw_pages_health, "200 when a request would succeed", NULL, "Object")
X("/v1/health", GET, true, gw_pages_health, "The same", NULL, "Object")
X("/openapi.json", GET, true, gw_pages_openapi, "This description", NULL, "Object")
X("/v1/openapi.json", GET, true, gw_pages_openapi, "The same", NULL, "Object")
