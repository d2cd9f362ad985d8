#!/usr/bin/env bash
# Prints the share of the branches of src/core or src/host that was taken, in each file and in
# total. A file that was compiled in several ways counts as in the best one.
#
#   coverage.sh FOLDER core|host    FOLDER has the output of programs built with `gcc --coverage`
set -euo pipefail

find "$1" -name '*.gcda' -exec gcov --no-output --branch-probabilities {} \; 2>/dev/null |
  awk -v of="src/$2/" '
    /^File/ { file = index($2, of) && $2 ~ /\.c'"'"'$/ ? substr($2, index($2, of)) : "" }
    /^Taken/ && file {
      split($4, share, /[:%]/)
      taken = int(share[2] * $6 / 100 + 0.5)
      if (!(file in all) || taken / $6 > most[file] / all[file]) { most[file] = taken; all[file] = $6 }
      file = ""
    }
    END {
      for (file in all) {
        printf "%5.1f %% of %4d  %s\n", 100 * most[file] / all[file], all[file], substr(file, 1, length(file) - 1)
        sum += most[file]; total += all[file]
      }
      printf "%5.1f %% of %4d  all\n", 100 * sum / total, total
    }' | sort -k5
