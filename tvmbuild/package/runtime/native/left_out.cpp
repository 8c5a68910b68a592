#include "left_out.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "name.h"
#include "text.h"

namespace tvmbuild {
namespace {

// The next word of a list, or null after the last one.
const char *take_word(const char *&text, size_t &length) {
  if (text == nullptr || *text == 0) return nullptr;
  const char *word = text;
  length = strcspn(word, ",");
  text = word + length + (word[length] == ',');
  return word;
}

bool is_word(const char *word, size_t length, const char *known) {
  return strlen(known) == length && memcmp(known, word, length) == 0;
}

}  // namespace

bool is_left_out(const char *variable, const char *word) {
  size_t length = 0;
  const char *text = getenv(variable);
  while (const char *each = take_word(text, length))
    if (is_word(each, length, word)) return true;
  return false;
}

bool check_left_out(const char *variable, const char *const *words, size_t count) {
  size_t length = 0;
  const char *text = getenv(variable);
  while (const char *each = take_word(text, length)) {
    bool is_known = length == 0;
    for (size_t index = 0; index < count; index++) is_known = is_known || is_word(each, length, words[index]);
    if (is_known) continue;
    Text allowed;
    for (size_t index = 0; index < count; index++) allowed.add("%s%s", index > 0 ? ", " : "", words[index]);
    return fail(TVMBUILD_TITLE ": %s does not know %.*s; allowed: %.*s", variable, static_cast<int>(length), each,
                static_cast<int>(allowed.size()), allowed.data());
  }
  return true;
}

}  // namespace tvmbuild
