# A manual page for each program and command; completion: after -m, and where a model is an argument, known names, files
# *.gguf and folders, nothing else.
touch a.gguf b.gguf notes.txt; mkdir models; touch models/c.gguf models/other.bin
cat > complete.bash <<'EOF'
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _baton "$1"; printf "%s\n" "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd " "
EOF
pages=$(mktemp -d)
trap 'rm -r "$pages"' EXIT
BATON_BIN=$(dirname "$(command -v baton)") sh "$(dirname "$0")/../../../docs/pages.sh" "$pages"
(cd "$pages" && find . -type f | LC_ALL=C sort)
try() { bash complete.bash "$pages/baton.bash" "$@"; }
try baton run -m ''
try baton run -m sm
try baton chat ''
try baton up --model = models/
try baton-decode --model models/
try baton bench --eng
try baton cache l
try baton compile -o ''
