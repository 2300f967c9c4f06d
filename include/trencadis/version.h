#pragma once

// The build reads the version from these three lines; nothing else states it.
#define TRENCADIS_VERSION_MAJOR 0
#define TRENCADIS_VERSION_MINOR 1
#define TRENCADIS_VERSION_PATCH 0

#define TRENCADIS_STRINGIFY_DETAIL(x) #x
#define TRENCADIS_STRINGIFY(x) TRENCADIS_STRINGIFY_DETAIL(x)
#define TRENCADIS_VERSION_DOTTED(major, minor, patch) \
  TRENCADIS_STRINGIFY(major) "." TRENCADIS_STRINGIFY(minor) "." TRENCADIS_STRINGIFY(patch)

#define TRENCADIS_VERSION_STRING                                             \
  TRENCADIS_VERSION_DOTTED(TRENCADIS_VERSION_MAJOR, TRENCADIS_VERSION_MINOR, \
                           TRENCADIS_VERSION_PATCH)
