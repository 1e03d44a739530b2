# Read by generate.sh and pages.sh: the programs ($bin, $programs), a folder for the run ($work), and every option of
# every program and command, a line each ($work/options).
bin=${BATON_BIN:-bin}
programs='baton baton-gateway baton-prefill baton-decode'
for p in $programs; do
    [ -x "$bin/$p" ] || { echo "$0: no $bin/$p; run 'make' first" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The caller's environment must not reach the pages.
for v in $(env | sed -n 's/^\(BATON_[A-Z0-9_]*\)=.*/\1/p'); do unset "$v"; done
for p in $programs; do "$bin/$p" --print-options; done > "$work/options"
