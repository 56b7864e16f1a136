# Runs FUZZER for SECONDS, beginning with the files of the folders SEEDS and with what it found the last times, which
# FOLDER/found keeps: a mistake that took luck to find is there again in the next run.

file(REMOVE_RECURSE ${FOLDER}/tried)
file(MAKE_DIRECTORY ${FOLDER}/tried ${FOLDER}/found)
execute_process(
  COMMAND ${FUZZER} -max_total_time=${SECONDS} -max_len=8192 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1
          -artifact_prefix=${FOLDER}/found/ ${FOLDER}/tried ${FOLDER}/found ${SEEDS}
  RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the fuzzer ended with ${result}; its input is in ${FOLDER}/found. Mend the reader, and keep the "
                      "input as found_WHAT in the corpus.")
endif()
