/* Every dialect: X(name) for gw_dialect_NAME of dialect.h. Include it with X defined. */
X(chat)
X(text)
X(messages)
X(count)
X(ollama_chat)
X(ollama_text)
X(responses)
X(llama)
