// Who the benchmark's own clients say they are: the same rule as load.cpp, kept in one place.
// LOAD_USER and LOAD_PASS in the environment (SASL PLAIN); without them SASL ANONYMOUS.
#pragma once
#include <cstdlib>
#include <proton/connection_options.hpp>

inline proton::connection_options credentials() {
  proton::connection_options options;
  options.idle_timeout(proton::duration(60000));
  if (const char* user = getenv("LOAD_USER"))
    options.user(user).password(getenv("LOAD_PASS")).sasl_allow_insecure_mechs(true).sasl_allowed_mechs("PLAIN");
  else
    options.sasl_allowed_mechs("ANONYMOUS");
  return options;
}
