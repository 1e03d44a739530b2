/* Every metric of baton-gateway: X(id, type, name, label, values, label2, values2, buckets, help). Include it with X
 * defined; documents are made from it too. Values and buckets are names of arrays in metrics.c. Units are in the names:
 * seconds, bytes, tokens. Intervals inside a node were measured by that node. With GW_METRICS_BY_KEY come
 * those of API keys, whose values are the names of keys. */
#ifndef GW_METRICS_BY_KEY
X(REQUESTS_RUNNING, GAUGE, "baton_requests_running", NULL, NULL, NULL, NULL, NULL, "Requests that hold nodes now")
X(REQUESTS_WAITING, GAUGE, "baton_requests_waiting", NULL, NULL, NULL, NULL, NULL, "Requests that wait for nodes now")
X(REQUESTS_IN_LINE, GAUGE, "baton_requests_in_line", NULL, NULL, NULL, NULL, NULL,
  "Requests that wait in the line of a decode node, for a slot or for memory")
X(OVERTAKES, COUNTER, "baton_overtakes_total", NULL, NULL, NULL, NULL, NULL,
  "Requests that began on a decode node before one that had waited there for longer (--overtake)")
X(REQUESTS, COUNTER, "baton_requests_total", "reason", reasons, NULL, NULL, NULL, "Requests that ended, by how")
X(FAILURES, COUNTER, "baton_request_failures_total", "kind", failures, NULL, NULL, NULL,
  "Requests that ended with an error, by kind")
X(PROMPT_TOKENS, COUNTER, "baton_prompt_tokens_total", NULL, NULL, NULL, NULL, NULL,
  "Prompt tokens of requests that ended")
X(LEFT_OUT, COUNTER, "baton_prompt_bytes_left_out_total", NULL, NULL, NULL, NULL, NULL,
  "Bytes of prompts that the model's vocabulary has no token for and its own tokenizer leaves out")
X(GENERATION_TOKENS, COUNTER, "baton_generation_tokens_total", NULL, NULL, NULL, NULL, NULL, "Tokens given to clients")
X(TOOL_CALLS, COUNTER, "baton_tool_calls_total", "outcome", calls, NULL, NULL, NULL,
  "Calls of tools in answers: given to clients; begun by the model but not to be read, or of a tool that the request "
  "does not have, which are given as text")
X(TTFT, HISTOGRAM, "baton_time_to_first_token_seconds", NULL, NULL, NULL, NULL, slow_s,
  "Time from the arrival of a request to its token 0")
X(ITL, HISTOGRAM, "baton_inter_token_latency_seconds", NULL, NULL, NULL, NULL, fast_s,
  "Time between two tokens of one request")
X(E2E, HISTOGRAM, "baton_e2e_request_latency_seconds", NULL, NULL, NULL, NULL, slow_s,
  "Time from the arrival of a request to its end")
X(QUEUE_TIME, HISTOGRAM, "baton_request_queue_time_seconds", NULL, NULL, NULL, NULL, slow_s,
  "Time that a request waits in the gateway for nodes")
X(PREFILL_TIME, HISTOGRAM, "baton_request_prefill_time_seconds", NULL, NULL, NULL, NULL, slow_s,
  "Time from the prompt to token 0, in the node that computed the prompt")
X(PREFILL_ROWS, COUNTER, "baton_prefill_rows_total", NULL, NULL, NULL, NULL, NULL,
  "Rows computed for prompts, padding included")
X(PREFILL_TOKENS, COUNTER, "baton_prefill_tokens_total", NULL, NULL, NULL, NULL, NULL,
  "Tokens of the prompts whose rows are counted, without those whose rows were kept from earlier prompts")
X(PREFILL_MACS, COUNTER, "baton_prefill_macs_total", "unit", units, NULL, NULL, NULL,
  "Multiply-accumulates of prompts, without padding, by where they ran")
X(EXPERT_ROWS, COUNTER, "baton_prefill_expert_rows_total", "kind", expert_rows, NULL, NULL, NULL,
  "Rows of experts on the NPU over all layers: of prompts, and padding to an expert's programs")
X(SHADOW_ENTRIES, COUNTER, "baton_prefill_shadow_entries_total", NULL, NULL, NULL, NULL, NULL,
  "Inputs of prompts beyond a clip that were added back as integers")
X(COMPILATIONS, COUNTER, "baton_prefill_compilations_total", NULL, NULL, NULL, NULL, NULL,
  "Programs compiled while a prompt waited; 0 once warm")
X(LOCAL_PREFILLS, COUNTER, "baton_local_prefills_total", "reason", locals, NULL, NULL, NULL,
  "Prompts given to a decode node to compute: short (--local-prefill-below), or no prefill node was known")
X(LOCAL_REFUSED, COUNTER, "baton_local_prefills_refused_total", "reason", refusals, NULL, NULL, NULL,
  "Prompts that went to a prefill node because a decode node's own would be of another exactness class")
X(REPLAYS, COUNTER, "baton_request_replays_total", NULL, NULL, NULL, NULL, NULL,
  "Attempts that continued an answer on other or the same nodes")
X(REPLAYED_TOKENS, COUNTER, "baton_replayed_tokens_total", NULL, NULL, NULL, NULL, NULL,
  "Tokens that attempts which continue an answer replayed")
X(ATTEMPTS, COUNTER, "baton_request_attempts_total", NULL, NULL, NULL, NULL, NULL,
  "Attempts of requests that ended; a request has several where nodes refused or were lost")
X(RECOVERIES, COUNTER, "baton_recoveries_total", "cause", causes, NULL, NULL, NULL,
  "Attempts left for another one, by what the node did: gone (silent or cut off), restarted, left, failed, gave_up (no "
  "room), "
  "no_answer, no_progress")
X(DEBTS, GAUGE, "baton_attempts_owed", NULL, NULL, NULL, NULL, NULL,
  "Attempts that the gateway left and whose node has not yet acknowledged the end")
X(DEBTS_FORGOTTEN, COUNTER, "baton_attempts_owed_forgotten_total", NULL, NULL, NULL, NULL, NULL,
  "Left attempts that the gateway forgot unacknowledged because there were too many; their leases end them")
X(PREFIX_TOKENS, COUNTER, "baton_prefix_hit_tokens_total", "side", roles, NULL, NULL, NULL,
  "Prompt tokens with rows from earlier prompts: not computed (prefill), not sent (decode)")
X(DECODE_TIME, HISTOGRAM, "baton_request_decode_time_seconds", NULL, NULL, NULL, NULL, slow_s,
  "Time from the first decode step to the end, in the decode node")
X(REQUEST_PROMPT_TOKENS, HISTOGRAM, "baton_request_prompt_tokens", NULL, NULL, NULL, NULL, tokens,
  "Prompt tokens of a request")
X(REQUEST_GENERATION_TOKENS, HISTOGRAM, "baton_request_generation_tokens", NULL, NULL, NULL, NULL, tokens,
  "Tokens given for a request")
X(KV_TRANSFER_SECONDS, HISTOGRAM, "baton_kv_transfer_seconds", NULL, NULL, NULL, NULL, slow_s,
  "Time from the first KV block sent to Committed, in the prefill node")
X(KV_EXPOSED_SECONDS, HISTOGRAM, "baton_kv_exposed_seconds", NULL, NULL, NULL, NULL, slow_s,
  "Time from the end of the last layer to Committed: what the hand-off cost")
X(KV_TRANSFER_BYTES, HISTOGRAM, "baton_kv_transfer_bytes", NULL, NULL, NULL, NULL, bytes, "KV bytes of one hand-off")
X(DEVICE_SECONDS, COUNTER, "baton_device_seconds_total", "role", roles, NULL, NULL, NULL,
  "Time that the work of nodes would have taken on the devices of --profile and --decode-profile")
X(DEVICE_JOULES, COUNTER, "baton_device_joules_total", "role", roles, NULL, NULL, NULL,
  "Energy of the work of nodes on the devices of --profile and --decode-profile, where the profile has a source for "
  "it; an upper bound where the source is a thermal design power")
X(DEVICE_UTILISATION, GAUGE, "baton_device_utilisation_ratio", "role", roles, NULL, NULL, NULL,
  "The part of the device time that would remain at the peak rate: of int8 operations (prefill), of memory (decode)")
X(DEVICE_PARTS, COUNTER, "baton_device_prefill_part_seconds_total", "part", parts, NULL, NULL, NULL,
  "Device time of prompts by part: the NPU (spill is a part of it), the companion's operators, conversions between the "
  "two, waiting at each change of engine, switches of sessions; of requests that ended")
X(DEVICE_BUBBLES, COUNTER, "baton_device_bubble_seconds_total", "engine", units, NULL, NULL, NULL,
  "How long each engine waits for the other in prompts, of requests that ended")
X(DEVICE_TRANSFER, COUNTER, "baton_device_transfer_seconds_total", NULL, NULL, NULL, NULL, NULL,
  "Time of KV on the link of --link, of requests that ended")
X(DEVICE_EXPOSED, COUNTER, "baton_device_transfer_exposed_seconds_total", NULL, NULL, NULL, NULL, NULL,
  "The part of the link's time that would remain after the prompt is computed")
X(PACE_SECONDS, COUNTER, "baton_pace_seconds_total", "role", roles, NULL, NULL, NULL,
  "Time that work was to take with --pace")
X(PACE_LATE, COUNTER, "baton_pace_late_seconds_total", "role", roles, NULL, NULL, NULL,
  "Time by which work took longer than --pace asks for: above 1 % of baton_pace_seconds_total the host was measured "
  "instead of the device")
X(PEERS, GAUGE, "baton_peers", "role", roles, "state", states, NULL, "Nodes known, by role and state")
X(MESSAGES, COUNTER, "baton_control_messages_total", "result", messages, NULL, NULL, NULL,
  "Frames on the control socket: received and sent, bad (no message of this protocol), forbidden (by key), unsent (no "
  "link)")
X(STALE, COUNTER, "baton_control_dropped_total", "reason", drops, NULL, NULL, NULL,
  "Messages understood but without effect, by reason")
X(CAPTURED, COUNTER, "baton_capture_records_total", "result", captures, NULL, NULL, NULL,
  "Requests by what became of their record in the capture: written; dropped because the disk is slow (busy); dropped "
  "because the disk is full or memory is short (refused)")
X(CAPTURE_BYTES, COUNTER, "baton_capture_bytes_total", NULL, NULL, NULL, NULL, NULL, "Bytes written to the capture")
X(HTTP_ANSWERS, COUNTER, "baton_http_answers_total", "status", statuses, NULL, NULL, NULL,
  "HTTP answers by class of their status code")
X(HTTP_CONNECTIONS, GAUGE, "baton_http_connections", NULL, NULL, NULL, NULL, NULL, "HTTP connections open now")
X(CERTIFICATE_END, GAUGE, "baton_tls_certificate_end_timestamp_seconds", NULL, NULL, NULL, NULL, NULL,
  "When the certificate that clients are shown is over, in seconds since 1970; 0: plain HTTP")
X(CERTIFICATES_READ, COUNTER, "baton_tls_certificate_reads_total", "outcome", outcomes, NULL, NULL, NULL,
  "Certificates that were read again at SIGHUP: taken, or refused, so that the old one stays")
X(PUT_OFF, COUNTER, "baton_http_requests_put_off_total", NULL, NULL, NULL, NULL, NULL,
  "Requests that were served in a later turn of the gateway's loop, because the turn in which they came had no time")
X(BODIES, COUNTER, "baton_request_bodies_total", "by", places, NULL, NULL, NULL,
  "Bodies of requests by who read them as a request: the gateway's loop (short ones), or a thread beside it")
X(BODIES_WAITING, GAUGE, "baton_request_bodies_waiting", NULL, NULL, NULL, NULL, NULL,
  "Bodies that a thread reads now, or that wait for it")
X(ANSWER_ENDS, COUNTER, "baton_answer_ends_total", "by", places, NULL, NULL, NULL,
  "Ends of answers by who wrote them: the gateway's loop (short ones), or a thread beside it")
X(TURN, HISTOGRAM, "baton_gateway_turn_seconds", NULL, NULL, NULL, NULL, turn_s,
  "Time of one turn of the gateway's loop, without its wait; nobody is served meanwhile")
X(LOG_DROPPED, COUNTER, "baton_log_lines_dropped_total", NULL, NULL, NULL, NULL, NULL,
  "Log lines dropped because nobody read stderr in time")
X(BUILD_INFO, GAUGE, "baton_build_info", "version", versions, "model", models, NULL, "1; the labels say what runs")
X(START_TIME, GAUGE, "process_start_time_seconds", NULL, NULL, NULL, NULL, NULL,
  "Start of this process, seconds since 1970")
X(RESIDENT, GAUGE, "process_resident_memory_bytes", NULL, NULL, NULL, NULL, NULL,
  "Memory of this process in RAM, bytes")
#else
X(KEY_REQUESTS, COUNTER, "baton_key_requests_total", "key", keys, NULL, NULL, NULL,
  "Requests of an API key that were taken and have ended, by the key's name")
X(KEY_TOKENS, COUNTER, "baton_key_tokens_total", "key", keys, "kind", kinds, NULL,
  "Tokens of an API key's requests that ended: of prompts that nodes were asked for, and of answers")
X(KEY_REFUSALS, COUNTER, "baton_key_refusals_total", "key", keys, "reason", reached, NULL,
  "Requests of an API key that were refused: 403 for want of a role (role), 429 for its requests a minute, tokens a "
  "minute or requests at once, or because the queue is full (queue)")
X(KEY_IN_FLIGHT, GAUGE, "baton_key_requests_in_flight", "key", keys, NULL, NULL, NULL,
  "Requests of an API key that are being answered now")
X(KEY_WAITING, GAUGE, "baton_key_requests_waiting", "key", keys, NULL, NULL, NULL,
  "Requests of an API key that wait for nodes, with --share-by key")
#endif
