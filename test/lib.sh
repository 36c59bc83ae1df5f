# Read by shell tests: counts cases and says what happened. A test ends with `finish`.
# shellcheck shell=bash
passed=0
failed=0

# ok TEXT CMD...: a case that passes if CMD succeeds; what CMD prints is shown if it does not.
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

# says PATTERN CMD...: CMD may succeed or not, but prints a line with this (extended) pattern.
says() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1) || true
    printf '%s\n' "$output"
    grep -Eq -e "$pattern" <<<"$output"
}

# refuses PATTERN CMD...: CMD fails, and says a line with this pattern.
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
