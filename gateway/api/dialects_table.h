/* Every dialect: X(name) for gw_dialect_NAME of dialect.h. Include it with X defined. */
X(chat)
X(text)
