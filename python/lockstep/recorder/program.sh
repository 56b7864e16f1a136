#!/bin/sh
# Runs the program of this name that follows on PATH, which finds the recorder whatever became of PYTHONPATH.
here=${0%/*}
name=${0##*/}
IFS=:
passed=
for folder in $PATH; do
  if [ "$folder" = "$here" ]; then
    passed=1
  elif [ -n "$passed" ] && [ -x "$folder/$name" ] && [ ! -d "$folder/$name" ]; then
    unset IFS
    case ":$PYTHONPATH:" in
      *":${here%/*}:"*) ;;
      *) export PYTHONPATH="${here%/*}${PYTHONPATH:+:$PYTHONPATH}" ;;
    esac
    exec "$folder/$name" "$@"
  fi
done
echo "$name: not found" >&2
exit 127
