#!/bin/sh
# One prompt through a gateway, a prefill node and a decode node, three processes on this machine; then they are stopped.
set -eu
cd "$(dirname "$0")/.."
prompt='What is the capital of France? Answer in one sentence.'
echo "prompt: $prompt"
echo
exec bin/baton run -m smollm2 --chat -p "$prompt" -n 48 --temp 0
