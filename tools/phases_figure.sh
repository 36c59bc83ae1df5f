#!/bin/bash
# phases_figure.sh CSV SVG: draws shares of phases as stacked bars, like the figure of the paper DMA-Latte: of one copy as
# published and as the cost model predicts it, of the variants of an all-gather as predicted, and as coll_dma_trace has seen them on
# an emulated node. docs/user/phases.csv is what docs/user/phases.svg is made of: rows of `fit_gpu -s`, and of traces.
# shellcheck disable=SC2016,SC1003 # $copies and others are names of gnuplot
set -euo pipefail
[ $# = 2 ] || { echo "usage: $0 CSV SVG" >&2; exit 2; }
command -v gnuplot >/dev/null || { echo 'gnuplot is not installed' >&2; exit 1; }

# bars CSV SOURCE WHAT...: a row for gnuplot for each size
bars() {
    awk -F, -v source="$2" -v what="$3" '
        function size(b) { return b >= 1048576 ? b / 1048576 "M" : b >= 1024 ? b / 1024 "K" : b }
        $1 == source && $2 ~ what {
            name = $2
            sub("all-gather ", "", name)
            printf "\"%s%s\" %s %s %s %s\n", name == "copy" ? "" : name " ", size($3), $4, $5, $6, $7
        }' "$1"
}

# Bars of the two sources of a copy stand side by side.
copies() {
    paste -d '\n' <(bars "$1" published '^copy$') <(bars "$1" model '^copy$' | sed 's/^"[^"]*"/"model"/') <(bars "$1" published '^copy$' | sed 's/.*/"" 0 0 0 0/')
}

colours=('#4477aa' '#ccbb44' '#228833' '#ee6677')
names=(control schedule copy synchronise)
panel() {
    local i
    echo "set title '$2'"
    echo "plot \\"
    for i in 0 1 2 3; do
        echo "    $1 using $((i + 2)):xtic(1) $([ "$3" = key ] && echo "title '${names[i]}'" || echo notitle) lc rgb '${colours[i]}'$([ "$i" = 3 ] || echo ', \')"
    done
}

{
    printf '$copies << END\n%s\nEND\n' "$(copies "$1")"
    printf '$model << END\n%s\nEND\n' "$(bars "$1" model '^all-gather')"
    printf '$emulated << END\n%s\nEND\n' "$(bars "$1" emulated '^all-gather')"
    cat <<END
set terminal svg size 1300,430 background 'white' font 'sans,11'
set style data histograms
set style histogram rowstacked
set style fill solid 0.9 noborder
set boxwidth 0.8
set yrange [0:100]
set xtics rotate by -55 noenhanced scale 0
set multiplot
set lmargin at screen 0.05
set rmargin at screen 0.47
set tmargin at screen 0.80
set bmargin at screen 0.22
set ylabel 'share of the time (%)'
set key at screen 0.5,0.99 center top horizontal
END
    panel '$copies' 'One copy, 8 x MI300X: published (size), and model' key
    echo 'set lmargin at screen 0.51; set rmargin at screen 0.73; unset ylabel; set format y ""'
    panel '$model' 'All-gather, 8 GPUs, one process: model' none
    echo 'set lmargin at screen 0.77; set rmargin at screen 0.99'
    panel '$emulated' 'All-gather, 4 ranks: trace, emulated' none
} | gnuplot | sed -e 's/^[[:space:]]*//' -e '/^$/d' >"$2"
