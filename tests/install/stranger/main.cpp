#include <trencadis/version.h>

#include <cstdio>

int main() {
  std::printf("trencadis %s\n", TRENCADIS_VERSION_STRING);
  return 0;
}
