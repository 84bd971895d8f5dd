# Stand-in for PopART's enable.sh (see ../README.md). Source it in bash, after Poplar's.

STAND_IN_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export CMAKE_PREFIX_PATH="${STAND_IN_ROOT}${CMAKE_PREFIX_PATH:+:${CMAKE_PREFIX_PATH}}"
export CPATH="${STAND_IN_ROOT}/include${CPATH:+:${CPATH}}"
export LIBRARY_PATH="${STAND_IN_ROOT}/lib${LIBRARY_PATH:+:${LIBRARY_PATH}}"
export LD_LIBRARY_PATH="${STAND_IN_ROOT}/lib${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}"
# No guard here, as in the real one: an unset PYTHONPATH leaves a trailing colon, or ends the shell under `set -u`.
export PYTHONPATH="${STAND_IN_ROOT}/python:${PYTHONPATH}"
unset STAND_IN_ROOT
