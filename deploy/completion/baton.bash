# Completion of Baton's commands for bash. Written by docs/generate.sh from the option tables.
_baton_models()
{
    compgen -W 'smollm2' -- "$1"
    compgen -f -X '!*.gguf' -- "$1"
    compgen -d -- "$1"
}
_baton()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} program=${1##*/} words=
    COMPREPLY=()
    if [ "$cur" = = ]; then cur=
    elif [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [ "$program" = baton ]; then
        if [ "$COMP_CWORD" = 1 ]; then
            mapfile -t COMPREPLY < <(compgen -W 'run chat up status role keygen compile cache inspect tokenize trace padding profiles roofline timeline plan bench replay simulate calibrate compare perplexity help --help --version' -- "$cur")
            return
        fi
        program="baton ${COMP_WORDS[1]}"
    fi
    case "$program $prev" in
    "baton run --prompt" | "baton run -p" | \
    "baton run --system" | \
    "baton run --n-predict" | "baton run -n" | \
    "baton run --temp" | \
    "baton run --top-k" | \
    "baton run --top-p" | \
    "baton run --min-p" | \
    "baton run --presence-penalty" | \
    "baton run --frequency-penalty" | \
    "baton run --repetition-penalty" | \
    "baton run --seed" | "baton run -s" | \
    "baton run --stop" | \
    "baton run --ctx-size" | "baton run -c" | \
    "baton run --quant" | \
    "baton run --attention" | \
    "baton run --shape-policy" | \
    "baton run --profile" | \
    "baton run --decode-profile" | \
    "baton run --link" | \
    "baton run --pace" | \
    "baton run --threads" | "baton run -t" | \
    "baton run --kv-memory" | \
    "baton run --swap-memory" | \
    "baton run --memory" | \
    "baton run --cache-limit" | \
    "baton run --slots" | \
    "baton run --prefill-slots" | \
    "baton run --share-tokens" | \
    "baton run --speculate" | \
    "baton run --isa" | \
    "baton run --url" | \
    "baton chat --system" | \
    "baton chat --n-predict" | "baton chat -n" | \
    "baton chat --temp" | \
    "baton chat --top-p" | \
    "baton chat --top-k" | \
    "baton chat --min-p" | \
    "baton chat --presence-penalty" | \
    "baton chat --frequency-penalty" | \
    "baton chat --repetition-penalty" | \
    "baton chat --ctx-size" | "baton chat -c" | \
    "baton chat --quant" | \
    "baton chat --attention" | \
    "baton chat --shape-policy" | \
    "baton chat --profile" | \
    "baton chat --decode-profile" | \
    "baton chat --link" | \
    "baton chat --pace" | \
    "baton chat --threads" | "baton chat -t" | \
    "baton chat --kv-memory" | \
    "baton chat --swap-memory" | \
    "baton chat --memory" | \
    "baton chat --cache-limit" | \
    "baton chat --slots" | \
    "baton chat --prefill-slots" | \
    "baton chat --share-tokens" | \
    "baton chat --speculate" | \
    "baton chat --isa" | \
    "baton chat --url" | \
    "baton up --prefill" | \
    "baton up --decode" | \
    "baton up --local-prefill-below" | \
    "baton up --ctx-size" | "baton up -c" | \
    "baton up --quant" | \
    "baton up --attention" | \
    "baton up --shape-policy" | \
    "baton up --profile" | \
    "baton up --decode-profile" | \
    "baton up --link" | \
    "baton up --pace" | \
    "baton up --threads" | "baton up -t" | \
    "baton up --kv-memory" | \
    "baton up --swap-memory" | \
    "baton up --memory" | \
    "baton up --cache-limit" | \
    "baton up --slots" | \
    "baton up --prefill-slots" | \
    "baton up --share-tokens" | \
    "baton up --speculate" | \
    "baton up --isa" | \
    "baton up --host" | \
    "baton up --port" | \
    "baton up --alias" | "baton up -a" | \
    "baton up --cors" | \
    "baton up --max-queue" | \
    "baton up --max-connections" | \
    "baton up --idle-timeout" | \
    "baton up --temp" | \
    "baton up --top-p" | \
    "baton up --top-k" | \
    "baton up --min-p" | \
    "baton up --repetition-penalty" | \
    "baton up --max-answer" | \
    "baton up --capture-rotate" | \
    "baton up --timeout" | \
    "baton up --recovery-timeout" | \
    "baton up --drain-timeout" | \
    "baton status --url" | \
    "baton role --url" | \
    "baton role --wait" | \
    "baton keygen --gateways" | \
    "baton keygen --prefill" | \
    "baton keygen --decode" | \
    "baton compile --ctx-size" | "baton compile -c" | \
    "baton compile --quant" | \
    "baton compile --attention" | \
    "baton compile --shape-policy" | \
    "baton compile --profile" | \
    "baton compile --threads" | "baton compile -t" | \
    "baton compile --isa" | \
    "baton compile --memory" | \
    "baton compile --cache-limit" | \
    "baton cache --cache-limit" | \
    "baton inspect --shape-policy" | \
    "baton inspect --ctx-size" | "baton inspect -c" | \
    "baton inspect --threads" | "baton inspect -t" | \
    "baton inspect --bandwidth" | \
    "baton tokenize --prompt" | "baton tokenize -p" | \
    "baton trace --block-tokens" | \
    "baton trace --start" | \
    "baton trace --duration" | \
    "baton trace --skip" | \
    "baton trace --limit" | \
    "baton trace --speed" | \
    "baton trace --input" | \
    "baton trace --answer" | \
    "baton trace --max-input" | \
    "baton trace --max-answer-tokens" | \
    "baton trace --new-block-tokens" | \
    "baton trace --requests" | "baton trace -n" | \
    "baton trace --seed" | \
    "baton trace --rate" | \
    "baton trace --cv" | \
    "baton padding --policy" | \
    "baton padding --ctx-size" | "baton padding -c" | \
    "baton roofline --profile" | \
    "baton roofline --decode-profile" | \
    "baton roofline --link" | \
    "baton timeline --ctx-size" | "baton timeline -c" | \
    "baton timeline --quant" | \
    "baton timeline --attention" | \
    "baton timeline --shape-policy" | \
    "baton timeline --profile" | \
    "baton timeline --companion" | \
    "baton timeline --decode-profile" | \
    "baton timeline --link" | \
    "baton timeline --prompt-tokens" | "baton timeline -p" | \
    "baton timeline --n-predict" | "baton timeline -n" | \
    "baton timeline --window" | \
    "baton timeline --threads" | "baton timeline -t" | \
    "baton timeline --cache-limit" | \
    "baton plan --ctx-size" | "baton plan -c" | \
    "baton plan --prefill" | \
    "baton plan --decode" | \
    "baton plan --link" | \
    "baton plan --slots" | \
    "baton plan --window" | \
    "baton plan --speed" | \
    "baton plan --n-predict" | "baton plan -n" | \
    "baton plan --policy" | \
    "baton plan --recipe" | \
    "baton plan --attention" | \
    "baton plan --kv-dtype" | \
    "baton plan --slo" | \
    "baton plan --rows" | \
    "baton bench --weights" | \
    "baton bench --quant" | \
    "baton bench --attention" | \
    "baton bench --shape-policy" | \
    "baton bench --profile" | \
    "baton bench --n-prompt" | "baton bench -p" | \
    "baton bench --n-gen" | "baton bench -n" | \
    "baton bench --batch" | \
    "baton bench --n-depth" | "baton bench -d" | \
    "baton bench --schedule" | \
    "baton bench --repetitions" | "baton bench -r" | \
    "baton bench --threads" | "baton bench -t" | \
    "baton bench --isa" | \
    "baton bench --core" | \
    "baton bench --cache-limit" | \
    "baton bench --memory" | \
    "baton replay --synthetic" | \
    "baton replay --limit" | \
    "baton replay --speed" | \
    "baton replay --rate" | \
    "baton replay --concurrency" | \
    "baton replay --jitter" | \
    "baton replay --streams" | \
    "baton replay --timeout" | \
    "baton replay --seed" | \
    "baton replay --block-tokens" | \
    "baton replay --answer-tokens" | \
    "baton replay --url" | \
    "baton replay --served-model" | \
    "baton replay --prefill" | \
    "baton replay --decode" | \
    "baton replay --local-prefill-below" | \
    "baton replay --max-queue" | \
    "baton replay --max-connections" | \
    "baton replay --recovery-timeout" | \
    "baton replay --capture-rotate" | \
    "baton replay --ctx-size" | "baton replay -c" | \
    "baton replay --quant" | \
    "baton replay --attention" | \
    "baton replay --shape-policy" | \
    "baton replay --profile" | \
    "baton replay --decode-profile" | \
    "baton replay --link" | \
    "baton replay --pace" | \
    "baton replay --threads" | "baton replay -t" | \
    "baton replay --kv-memory" | \
    "baton replay --swap-memory" | \
    "baton replay --memory" | \
    "baton replay --cache-limit" | \
    "baton replay --slots" | \
    "baton replay --prefill-slots" | \
    "baton replay --share-tokens" | \
    "baton replay --speculate" | \
    "baton replay --isa" | \
    "baton replay --slo" | \
    "baton replay --ramp-share" | \
    "baton simulate --requests" | \
    "baton simulate --gateways" | \
    "baton simulate --prefill" | \
    "baton simulate --decode" | \
    "baton simulate --profile" | \
    "baton simulate --link" | \
    "baton simulate --pace" | \
    "baton simulate --faults" | \
    "baton simulate --scale" | \
    "baton simulate --quant" | \
    "baton simulate --attention" | \
    "baton simulate --shape-policy" | \
    "baton simulate --ctx-size" | "baton simulate -c" | \
    "baton simulate --kv-memory" | \
    "baton simulate --swap-memory" | \
    "baton simulate --slots" | \
    "baton simulate --prefill-slots" | \
    "baton simulate --batch-rows" | \
    "baton simulate --growth-tokens" | \
    "baton simulate --chunk-tokens" | \
    "baton simulate --min-overlap" | \
    "baton simulate --share-tokens" | \
    "baton simulate --window" | \
    "baton simulate --heartbeat" | \
    "baton simulate --drain-timeout" | \
    "baton simulate --local-prefill-below" | \
    "baton simulate --max-queue" | \
    "baton simulate --max-active" | \
    "baton simulate --max-connections" | \
    "baton simulate --timeout" | \
    "baton simulate --recovery-timeout" | \
    "baton simulate --request-cpu" | \
    "baton simulate --token-cpu" | \
    "baton simulate --synthetic" | \
    "baton simulate --limit" | \
    "baton simulate --speed" | \
    "baton simulate --rate" | \
    "baton simulate --concurrency" | \
    "baton simulate --streams" | \
    "baton simulate --jitter" | \
    "baton simulate --seed" | \
    "baton simulate --block-tokens" | \
    "baton simulate --answer-tokens" | \
    "baton simulate --slo" | \
    "baton simulate --ramp-share" | \
    "baton simulate --slo-share" | \
    "baton simulate --price" | \
    "baton simulate --shard" | \
    "baton simulate --jobs" | \
    "baton calibrate --served-model" | \
    "baton calibrate --longest" | \
    "baton calibrate --answer-tokens" | "baton calibrate -n" | \
    "baton calibrate --batch" | \
    "baton calibrate --timeout" | \
    "baton calibrate --deadline" | \
    "baton calibrate --seed" | \
    "baton calibrate --name" | \
    "baton compare --seed" | \
    "baton perplexity --ctx-size" | "baton perplexity -c" | \
    "baton perplexity --chunks" | \
    "baton perplexity --threads" | "baton perplexity -t" | \
    "baton perplexity --isa" | \
    "baton perplexity --cache-limit" | \
    "baton perplexity --memory" | \
    "baton perplexity --quant" | \
    "baton perplexity --attention" | \
    "baton perplexity --shape-policy" | \
    "baton perplexity --profile" | \
    "baton-gateway --alias" | "baton-gateway -a" | \
    "baton-gateway --host" | \
    "baton-gateway --port" | \
    "baton-gateway --cors" | \
    "baton-gateway --control" | \
    "baton-gateway --key" | \
    "baton-gateway --local-prefill-below" | \
    "baton-gateway --temp" | \
    "baton-gateway --top-p" | \
    "baton-gateway --top-k" | \
    "baton-gateway --min-p" | \
    "baton-gateway --repetition-penalty" | \
    "baton-gateway --max-answer" | \
    "baton-gateway --max-queue" | \
    "baton-gateway --max-active" | \
    "baton-gateway --max-nodes" | \
    "baton-gateway --max-connections" | \
    "baton-gateway --max-body" | \
    "baton-gateway --timeout" | \
    "baton-gateway --recovery-timeout" | \
    "baton-gateway --idle-timeout" | \
    "baton-gateway --drain-timeout" | \
    "baton-gateway --capture-rotate" | \
    "baton-prefill --ctx-size" | "baton-prefill -c" | \
    "baton-prefill --threads" | "baton-prefill -t" | \
    "baton-prefill --isa" | \
    "baton-prefill --kv-memory" | \
    "baton-prefill --memory" | \
    "baton-prefill --cache-limit" | \
    "baton-prefill --gateway" | \
    "baton-prefill --id" | \
    "baton-prefill --key" | \
    "baton-prefill --decode-profile" | \
    "baton-prefill --link" | \
    "baton-prefill --pace" | \
    "baton-prefill --drain-timeout" | \
    "baton-prefill --slots" | \
    "baton-prefill --min-overlap" | \
    "baton-prefill --share-tokens" | \
    "baton-prefill --quant" | \
    "baton-prefill --attention" | \
    "baton-prefill --shape-policy" | \
    "baton-prefill --profile" | \
    "baton-prefill --listen" | \
    "baton-prefill --advertise" | \
    "baton-prefill --window" | \
    "baton-prefill --decode-slots" | \
    "baton-prefill --batch-rows" | \
    "baton-prefill --growth-tokens" | \
    "baton-prefill --swap-memory" | \
    "baton-prefill --speculate" | \
    "baton-prefill --chunk-tokens" | \
    "baton-decode --ctx-size" | "baton-decode -c" | \
    "baton-decode --threads" | "baton-decode -t" | \
    "baton-decode --isa" | \
    "baton-decode --kv-memory" | \
    "baton-decode --memory" | \
    "baton-decode --cache-limit" | \
    "baton-decode --gateway" | \
    "baton-decode --id" | \
    "baton-decode --key" | \
    "baton-decode --decode-profile" | \
    "baton-decode --link" | \
    "baton-decode --pace" | \
    "baton-decode --drain-timeout" | \
    "baton-decode --listen" | \
    "baton-decode --advertise" | \
    "baton-decode --window" | \
    "baton-decode --slots" | \
    "baton-decode --batch-rows" | \
    "baton-decode --growth-tokens" | \
    "baton-decode --swap-memory" | \
    "baton-decode --speculate" | \
    "baton-decode --chunk-tokens" | \
    "baton-decode --prefill-slots" | \
    "baton-decode --min-overlap" | \
    "baton-decode --share-tokens" | \
    "baton-decode --quant" | \
    "baton-decode --attention" | \
    "baton-decode --shape-policy" | \
    "baton-decode --profile")
        return ;;
    "baton run --file" | "baton run -f" | \
    "baton run --calib" | \
    "baton run --package" | \
    "baton run --api-key-file" | \
    "baton run --timeline" | \
    "baton chat --calib" | \
    "baton chat --package" | \
    "baton chat --api-key-file" | \
    "baton up --calib" | \
    "baton up --package" | \
    "baton up --api-key-file" | \
    "baton up --capture" | \
    "baton up --capture-seal" | \
    "baton status --api-key-file" | \
    "baton role --api-key-file" | \
    "baton compile --calib" | \
    "baton compile --output" | "baton compile -o" | \
    "baton tokenize --file" | "baton tokenize -f" | \
    "baton trace --unseal" | \
    "baton trace --output" | "baton trace -o" | \
    "baton trace --rates" | \
    "baton timeline --calib" | \
    "baton timeline --package" | \
    "baton timeline --timeline" | "baton timeline -o" | \
    "baton plan --trace" | \
    "baton plan --plan" | "baton plan -o" | \
    "baton bench --calib" | \
    "baton bench --package" | \
    "baton replay --api-key-file" | \
    "baton replay --capture" | \
    "baton replay --capture-seal" | \
    "baton replay --calib" | \
    "baton replay --package" | \
    "baton replay --csv" | \
    "baton replay --report" | \
    "baton simulate --package" | \
    "baton simulate --points" | \
    "baton simulate --plot" | \
    "baton simulate --csv" | \
    "baton simulate --report" | \
    "baton calibrate --api-key-file" | \
    "baton calibrate --output" | "baton calibrate -o" | \
    "baton perplexity --file" | "baton perplexity -f" | \
    "baton perplexity --calib" | \
    "baton perplexity --package" | \
    "baton-gateway --api-key-file" | \
    "baton-gateway --capture" | \
    "baton-gateway --capture-seal" | \
    "baton-prefill --calib" | \
    "baton-prefill --package" | \
    "baton-decode --calib" | \
    "baton-decode --package")
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return ;;
    "baton run --model" | "baton run -m" | \
    "baton chat --model" | "baton chat -m" | \
    "baton up --model" | "baton up -m" | \
    "baton compile --model" | "baton compile -m" | \
    "baton tokenize --model" | "baton tokenize -m" | \
    "baton trace --model" | "baton trace -m" | \
    "baton roofline --model" | "baton roofline -m" | \
    "baton timeline --model" | "baton timeline -m" | \
    "baton plan --model" | "baton plan -m" | \
    "baton bench --model" | "baton bench -m" | \
    "baton replay --model" | "baton replay -m" | \
    "baton simulate --model" | "baton simulate -m" | \
    "baton calibrate --model" | "baton calibrate -m" | \
    "baton perplexity --model" | "baton perplexity -m" | \
    "baton-gateway --model" | "baton-gateway -m" | \
    "baton-prefill --model" | "baton-prefill -m" | \
    "baton-decode --model" | "baton-decode -m")
        mapfile -t COMPREPLY < <(_baton_models "$cur" | sort -u)
        return ;;
    "baton run --engine" | \
    "baton chat --engine" | \
    "baton up --engine" | \
    "baton bench --engine" | \
    "baton replay --engine" | \
    "baton-prefill --engine" | \
    "baton-decode --engine")
        mapfile -t COMPREPLY < <(compgen -W "npu host reference" -- "$cur")
        return ;;
    "baton run --decode-engine" | \
    "baton chat --decode-engine" | \
    "baton up --decode-engine" | \
    "baton replay --decode-engine" | \
    "baton-prefill --decode-engine" | \
    "baton-decode --prefill-engine")
        mapfile -t COMPREPLY < <(compgen -W "auto npu host reference" -- "$cur")
        return ;;
    "baton run --schedule" | \
    "baton chat --schedule" | \
    "baton up --schedule" | \
    "baton replay --schedule" | \
    "baton simulate --schedule" | \
    "baton-prefill --schedule" | \
    "baton-decode --schedule")
        mapfile -t COMPREPLY < <(compgen -W "serial fifo ooo" -- "$cur")
        return ;;
    "baton run --kv-dtype" | \
    "baton chat --kv-dtype" | \
    "baton up --kv-dtype" | \
    "baton bench --kv-dtype" | \
    "baton replay --kv-dtype" | \
    "baton simulate --kv-dtype" | \
    "baton perplexity --kv-dtype" | \
    "baton-prefill --kv-dtype" | \
    "baton-decode --kv-dtype")
        mapfile -t COMPREPLY < <(compgen -W "f16 int8" -- "$cur")
        return ;;
    "baton run --weights" | \
    "baton chat --weights" | \
    "baton up --weights" | \
    "baton plan --decode-weights" | \
    "baton replay --weights" | \
    "baton simulate --weights" | \
    "baton perplexity --weights" | \
    "baton-prefill --weights" | \
    "baton-decode --weights")
        mapfile -t COMPREPLY < <(compgen -W "f16 int8 fp4" -- "$cur")
        return ;;
    "baton run --npu-ops" | \
    "baton chat --npu-ops" | \
    "baton up --npu-ops" | \
    "baton compile --npu-ops" | \
    "baton timeline --npu-ops" | \
    "baton bench --npu-ops" | \
    "baton replay --npu-ops" | \
    "baton perplexity --npu-ops" | \
    "baton-prefill --npu-ops" | \
    "baton-decode --npu-ops")
        mapfile -t COMPREPLY < <(compgen -W "linear all" -- "$cur")
        return ;;
    "baton up --policy" | \
    "baton replay --policy" | \
    "baton simulate --policy" | \
    "baton-gateway --policy")
        mapfile -t COMPREPLY < <(compgen -W "least-load prefix round-robin" -- "$cur")
        return ;;
    "baton up --keys" | \
    "baton compile --images" | \
    "baton replay --keys" | \
    "baton-gateway --keys" | \
    "baton-prefill --keys" | \
    "baton-decode --keys")
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return ;;
    "baton up --log-level" | \
    "baton-gateway --log-level" | \
    "baton-prefill --log-level" | \
    "baton-decode --log-level")
        mapfile -t COMPREPLY < <(compgen -W "error warn info debug" -- "$cur")
        return ;;
    "baton up --log-format" | \
    "baton-gateway --log-format" | \
    "baton-prefill --log-format" | \
    "baton-decode --log-format")
        mapfile -t COMPREPLY < <(compgen -W "text json" -- "$cur")
        return ;;
    "baton trace --format" | \
    "baton plan --format" | \
    "baton replay --format" | \
    "baton simulate --format")
        mapfile -t COMPREPLY < <(compgen -W "auto mooncake azure burstgpt splitwise vidur bailian sharegpt servegen lengths baton" -- "$cur")
        return ;;
    "baton trace --to")
        mapfile -t COMPREPLY < <(compgen -W "mooncake baton" -- "$cur")
        return ;;
    "baton roofline --decode-weights")
        mapfile -t COMPREPLY < <(compgen -W "f16 int8 q4_0" -- "$cur")
        return ;;
    "baton roofline --prefill-weights")
        mapfile -t COMPREPLY < <(compgen -W "w8a8 q8_0 q4_0" -- "$cur")
        return ;;
    "baton timeline --schedule")
        mapfile -t COMPREPLY < <(compgen -W "best serial fifo ooo split" -- "$cur")
        return ;;
    "baton plan --by")
        mapfile -t COMPREPLY < <(compgen -W "e2e ttft tpot joules memory programs padding" -- "$cur")
        return ;;
    "baton bench --decode-engine")
        mapfile -t COMPREPLY < <(compgen -W "npu host" -- "$cur")
        return ;;
    "baton bench --output" | "baton bench -o")
        mapfile -t COMPREPLY < <(compgen -W "md csv json" -- "$cur")
        return ;;
    "baton replay --prompts")
        mapfile -t COMPREPLY < <(compgen -W "auto text" -- "$cur")
        return ;;
    "baton simulate --cost")
        mapfile -t COMPREPLY < <(compgen -W "nodes joules price" -- "$cur")
        return ;;
    "baton perplexity --engine")
        mapfile -t COMPREPLY < <(compgen -W "npu host reference decode decode-npu" -- "$cur")
        return ;;
    "baton perplexity --against")
        mapfile -t COMPREPLY < <(compgen -W "none npu host reference decode decode-npu" -- "$cur")
        return ;;
    "baton-prefill --local-prefill" | \
    "baton-decode --local-prefill")
        mapfile -t COMPREPLY < <(compgen -W "off npu host" -- "$cur")
        return ;;
    esac
    case $program in
    "baton run") words="--prompt -p --file -f --chat --system --n-predict -n --temp --top-k --top-p --min-p --presence-penalty --frequency-penalty --repetition-penalty --seed -s --stop --model -m --engine --decode-engine --schedule --kv-dtype --weights --ctx-size -c --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --decode-profile --link --pace --threads -t --kv-memory --swap-memory --memory --cache-limit --slots --prefill-slots --share-tokens --speculate --isa --url --api-key-file --timeline --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton chat") words="--system --n-predict -n --temp --top-p --top-k --min-p --presence-penalty --frequency-penalty --repetition-penalty --model -m --engine --decode-engine --schedule --kv-dtype --weights --ctx-size -c --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --decode-profile --link --pace --threads -t --kv-memory --swap-memory --memory --cache-limit --slots --prefill-slots --share-tokens --speculate --isa --url --api-key-file --quiet -q --no-history --help -h --version -V --print-config --print-options --print-man" ;;
    "baton up") words="--prefill --decode --local-prefill-below --policy --keys --model -m --engine --decode-engine --schedule --kv-dtype --weights --ctx-size -c --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --decode-profile --link --pace --threads -t --kv-memory --swap-memory --memory --cache-limit --slots --prefill-slots --share-tokens --speculate --isa --host --port --alias -a --api-key-file --insecure --cors --max-queue --max-connections --idle-timeout --temp --top-p --top-k --min-p --repetition-penalty --max-answer --capture --capture-text --capture-seal --capture-rotate --timeout --recovery-timeout --drain-timeout --log-level --log-format --verbose -v --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton status") words="--url --api-key-file --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton role") words="--url --api-key-file --wait --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton keygen") words="--gateways --prefill --decode --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton compile") words="--model -m --ctx-size -c --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --threads -t --isa --memory --cache-limit --output -o --images --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton cache") words="--yes -y --cache-limit --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton inspect") words="--shape-policy --ctx-size -c --threads -t --bandwidth --head --tensors --graph --errors --heads --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton tokenize") words="--model -m --prompt -p --file -f --bos --special --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton trace") words="--format --skip-bad --model -m --unseal --output -o --to --block-tokens --start --duration --skip --limit --speed --input --answer --max-input --max-answer-tokens --new-block-tokens --requests -n --seed --rate --cv --rates --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton padding") words="--policy --ctx-size -c --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton profiles") words="--json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton roofline") words="--model -m --profile --decode-profile --link --decode-weights --prefill-weights --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton timeline") words="--model -m --ctx-size -c --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --companion --decode-profile --link --prompt-tokens -p --n-predict -n --schedule --window --threads -t --cache-limit --timeline -o --by-length --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton plan") words="--model -m --ctx-size -c --prefill --decode --link --decode-weights --slots --window --colocated --trace --format --speed --n-predict -n --policy --recipe --attention --kv-dtype --any-bits --by --slo --rows --plan -o --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton bench") words="--model -m --engine --decode-engine --weights --kv-dtype --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --n-prompt -p --n-gen -n --batch --n-depth -d --schedule --repetitions -r --kernels --threads -t --isa --core --cache-limit --memory --output -o --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton replay") words="--format --skip-bad --synthetic --limit --speed --rate --concurrency --jitter --streams --timeout --seed --prompts --block-tokens --answer-tokens --scale-lengths --fit --url --api-key-file --served-model --prefill --decode --local-prefill-below --policy --keys --max-queue --max-connections --recovery-timeout --capture --capture-text --capture-seal --capture-rotate --model -m --engine --decode-engine --schedule --kv-dtype --weights --ctx-size -c --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --decode-profile --link --pace --threads -t --kv-memory --swap-memory --memory --cache-limit --slots --prefill-slots --share-tokens --speculate --isa --slo --ramp --ramp-share --csv --report --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton simulate") words="--model -m --requests --gateways --prefill --decode --profile --link --pace --colocated --faults --scale --kv-dtype --weights --quant --attention --package --shape-policy --schedule --ctx-size -c --kv-memory --swap-memory --slots --prefill-slots --batch-rows --growth-tokens --chunk-tokens --min-overlap --share-tokens --window --heartbeat --drain-timeout --policy --local-prefill-below --max-queue --max-active --max-connections --timeout --recovery-timeout --request-cpu --token-cpu --full --by-layer --format --skip-bad --synthetic --limit --speed --rate --concurrency --streams --jitter --seed --block-tokens --answer-tokens --scale-lengths --fit --slo --ramp --ramp-share --slo-share --cost --price --points --shard --jobs --plot --csv --report --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton calibrate") words="--model -m --served-model --api-key-file --longest --answer-tokens -n --batch --timeout --deadline --seed --output -o --name --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton compare") words="--seed --json --help -h --version -V --print-config --print-options --print-man" ;;
    "baton perplexity") words="--model -m --file -f --ctx-size -c --chunks --engine --against --weights --kv-dtype --threads -t --isa --cache-limit --memory --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --json --quiet -q --help -h --version -V --print-config --print-options --print-man" ;;
    "baton-gateway") words="--model -m --alias -a --host --port --api-key-file --insecure --cors --no-metrics --control --keys --key --policy --local-prefill-below --temp --top-p --top-k --min-p --repetition-penalty --max-answer --max-queue --max-active --max-nodes --max-connections --max-body --timeout --recovery-timeout --idle-timeout --drain-timeout --capture --capture-text --capture-seal --capture-rotate --log-level --log-format --verbose -v --help -h --version -V --print-config --print-options --print-man" ;;
    "baton-prefill") words="--model -m --kv-dtype --ctx-size -c --threads -t --isa --kv-memory --memory --cache-limit --gateway --id --keys --key --decode-profile --link --pace --drain-timeout --log-level --log-format --verbose -v --engine --slots --min-overlap --share-tokens --schedule --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --decode-engine --listen --advertise --window --weights --decode-slots --batch-rows --growth-tokens --swap-memory --speculate --local-prefill --chunk-tokens --help -h --version -V --print-config --print-options --print-man" ;;
    "baton-decode") words="--model -m --kv-dtype --ctx-size -c --threads -t --isa --kv-memory --memory --cache-limit --gateway --id --keys --key --decode-profile --link --pace --drain-timeout --log-level --log-format --verbose -v --engine --listen --advertise --window --weights --slots --batch-rows --growth-tokens --swap-memory --speculate --local-prefill --chunk-tokens --prefill-engine --prefill-slots --min-overlap --share-tokens --schedule --quant --attention --shape-policy --profile --npu-ops --calib --require-npu --package --help -h --version -V --print-config --print-options --print-man" ;;
    esac
    case $cur in
    -*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur"); return ;;
    esac
    case $program in
    "baton run" | "baton chat" | "baton up") mapfile -t COMPREPLY < <(_baton_models "$cur" | sort -u) ;;
    "baton cache") mapfile -t COMPREPLY < <(compgen -W 'list clear packages weights ids' -- "$cur") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    esac
}
complete -o filenames -F _baton baton baton-gateway baton-prefill baton-decode
