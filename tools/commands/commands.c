/* The table of subcommands: help, man page and completion come from it. */
#include "tools/tool.h"

static const bt_opt_command list[] = {
    {"Talk to a model", "run", &tool_run_program, tool_run_run},
    {"Talk to a model", "chat", &tool_chat_program, tool_chat_run},
    {"Fetch models", "pull", &tool_pull_program, tool_pull_run},
    {"Fetch models", "list", &tool_list_program, tool_list_run},
    {"Fetch models", "rm", &tool_rm_program, tool_rm_run},
    {"Serve", "up", &tool_up_program, tool_up_run},
    {"Serve", "status", &tool_status_program, tool_status_run},
    {"Serve", "role", &tool_role_program, tool_role_run},
    {"Serve", "keygen", &tool_keygen_program, tool_keygen_run},
    {"Serve", "compile", &tool_compile_program, tool_compile_run},
    {"Serve", "cache", &tool_cache_program, tool_cache_run},
    {"Look closer", "inspect", &tool_inspect_program, tool_inspect_run},
    {"Look closer", "tokenize", &tool_tokenize_program, tool_tokenize_run},
    {"Look closer", "trace", &tool_trace_program, tool_trace_run},
    {"Look closer", "padding", &tool_padding_program, tool_padding_run},
    {"Look closer", "profiles", &tool_profiles_program, tool_profiles_run},
    {"Look closer", "roofline", &tool_roofline_program, tool_roofline_run},
    {"Look closer", "price", &tool_price_program, tool_price_run},
    {"Look closer", "timeline", &tool_timeline_program, tool_timeline_run},
    {"Look closer", "plan", &tool_plan_program, tool_plan_run},
    {"Look closer", "bench", &tool_bench_program, tool_bench_run},
    {"Look closer", "replay", &tool_replay_program, tool_replay_run},
    {"Look closer", "simulate", &tool_simulate_program, tool_simulate_run},
    {"Look closer", "calibrate", &tool_calibrate_program, tool_calibrate_run},
    {"Look closer", "compare", &tool_compare_program, tool_compare_run},
    {"Look closer", "perplexity", &tool_perplexity_program, tool_perplexity_run},
};

const bt_opt_commands tool_commands = {
    .name = "baton",
    .summary = "LLM serving with prefill and decode on separate nodes",
    .normal = "baton run -m smollm2 -p 'The capital of France is' -n 32",
    .list = list,
    .count = sizeof list / sizeof list[0],
};
