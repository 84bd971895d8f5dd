# Stand-in for Poplar's enable.sh (see ../README.md). Source it in bash.

if [[ -z ${POPLAR_SDK_ENABLED+x} ]]; then
  STAND_IN_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
  export CMAKE_PREFIX_PATH="${STAND_IN_ROOT}${CMAKE_PREFIX_PATH:+:${CMAKE_PREFIX_PATH}}"
  export PATH="${STAND_IN_ROOT}/bin${PATH:+:${PATH}}"
  export CPATH="${STAND_IN_ROOT}/include${CPATH:+:${CPATH}}"
  export LIBRARY_PATH="${STAND_IN_ROOT}/lib${LIBRARY_PATH:+:${LIBRARY_PATH}}"
  export LD_LIBRARY_PATH="${STAND_IN_ROOT}/lib${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}"
  export PYTHONPATH="${STAND_IN_ROOT}/python:${STAND_IN_ROOT}/lib/python${PYTHONPATH:+:${PYTHONPATH}}"
  export OPAL_PREFIX="${STAND_IN_ROOT}"
  export POPLAR_SDK_ENABLED="${STAND_IN_ROOT}"
  unset STAND_IN_ROOT
else
  echo "ERROR: A Poplar SDK has already been enabled."
  echo "Path of enabled Poplar SDK: ${POPLAR_SDK_ENABLED}"
fi
