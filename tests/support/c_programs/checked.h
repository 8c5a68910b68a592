// Helpers of the programs that check tvmbuild.h.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <tvmbuild.h>

static void check(tvmbuild_status status) {
  if (status == TVMBUILD_OK) return;
  printf("failed: %s\n", tvmbuild_last_error());
  exit(1);
}

static tvmbuild_session *load(const char *path) {
  tvmbuild_session *session = NULL;
  check(tvmbuild_load(&path, 1, NULL, &session));
  return session;
}
