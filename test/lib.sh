# Read by shell tests: counts cases and prints their results. A test ends with `finish`.
# shellcheck shell=bash
passed=0
failed=0

# ok TEXT CMD...: a case that passes if CMD succeeds. If CMD fails, its output is shown.
ok() {
    local text=$1 output
    shift
    if output=$("$@" 2>&1 </dev/null); then
        echo "ok: $text"
        passed=$((passed + 1))
    else
        echo "FAILED: $text"
        printf '%s\n' "$output" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}

# says PATTERN CMD...: CMD prints a line that matches this (extended) pattern, whether it succeeds or not.
says() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1) || true
    printf '%s\n' "$output"
    grep -Eq -e "$pattern" <<<"$output"
}

# refuses PATTERN CMD...: CMD fails, and prints a line that matches this pattern.
refuses() {
    local pattern=$1 output
    shift
    if output=$("$@" 2>&1); then
        printf 'succeeded:\n%s\n' "$output"
        return 1
    fi
    printf '%s\n' "$output"
    grep -Eq -e "$pattern" <<<"$output"
}

skip() {
    echo "$*"
    exit 77
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
