/* Layouts of random runtimes, learned from plans made here and replayed for other sizes; each place is checked.
 *
 *   layout_stress ROUNDS
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "layout.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "layout_stress:%d: not so: %s\n", __LINE__, #condition); \
      abort();                                                                 \
    }                                                                          \
  } while (0)

using namespace etarena::xnnpack;

namespace {

std::mt19937_64 generator{1};
size_t below(size_t limit) { return generator() % limit; }
char* const kNowhere = reinterpret_cast<char*>(size_t{1} << 40);

// Something in scratch: what it has, and the first and the last operator that use it; -1 if none does.
struct Item {
  size_t size = 0;
  char* address = nullptr;
  int64_t first = -1, last = -1;
  size_t owner = 0;  // whose memory it is in, in a plan made here
  int64_t until = -1;
  size_t rounded() const { return (size + kRounding - 1) / kRounding * kRounding; }
};

struct Fake {
  std::vector<Value> values;
  std::vector<Operator> operators;
  RuntimeObject object = {};

  Fake(size_t n_values, size_t n_operators) : values(n_values), operators(n_operators) {
    for (size_t i = 0; i < n_values; ++i) {
      values[i].id = static_cast<uint32_t>(i);
      values[i].type = values[i].datatype = 1;
      values[i].allocation_type = below(5) == 0 ? kExternal : kInWorkspace;
    }
    for (size_t i = 0; i < n_operators; ++i) {
      const auto some = [&](size_t beyond) {
        return below(20) == 0 ? kNoValue
                              : static_cast<uint32_t>(std::min(n_values - 1, i * n_values / n_operators + beyond));
      };
      operators[i].n_inputs = static_cast<uint32_t>(below(4));
      operators[i].n_outputs = static_cast<uint32_t>(1 + below(2));
      for (uint32_t& id : operators[i].inputs) id = some(below(3));
      for (uint32_t& id : operators[i].outputs) id = some(1 + below(3));
    }
    object.operators = operators.data();
    object.n_operators = n_operators;
    object.values = values.data();
    object.n_values = n_values;
  }

  bool inner(uint32_t id) const { return id != kNoValue && values[id].allocation_type == kInWorkspace; }

  // Sizes as in shapes of one model: few of them, which vary together; some are empty.
  void resize(size_t factor) {
    const size_t some[] = {1 + below(5000), 64 * below(100), factor * 7, factor * 640};
    for (size_t i = 0; i < values.size(); ++i) values[i].size = below(40) == 0 ? below(2) * 320 : some[i % 4];
    for (size_t i = 0; i < operators.size(); ++i) operators[i].workspace_size = i % 5 == 0 ? some[2] : 0;
  }

  std::vector<Item> items() const {
    std::vector<Item> found(values.size() + operators.size());
    for (size_t i = 0; i < operators.size(); ++i) {
      const auto use = [&](uint32_t id) {
        if (!inner(id)) return;
        if (found[id].first < 0) found[id].first = static_cast<int64_t>(i);
        found[id].last = static_cast<int64_t>(i);
      };
      std::for_each_n(operators[i].inputs, operators[i].n_inputs, use);
      std::for_each_n(operators[i].outputs, operators[i].n_outputs, use);
      Item& own = found[values.size() + i];
      own.first = own.last = static_cast<int64_t>(i);
      own.size = operators[i].workspace_size;
      own.address = static_cast<char*>(operators[i].workspace);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (found[i].first >= 0) found[i].size = values[i].size;
      found[i].address = static_cast<char*>(values[i].data);
    }
    return found;
  }

  bool go_together(size_t one, size_t other) const {
    return std::any_of(operators.begin(), operators.end(), [&](const Operator& by) {
      const uint32_t* const end = by.inputs + by.n_inputs;
      const auto takes = [&](size_t id) { return std::find(by.inputs, end, static_cast<uint32_t>(id)) != end; };
      return (by.outputs[0] == one && takes(other)) || (by.outputs[0] == other && takes(one));
    });
  }

  // Lets outputs take over inputs of their size that nobody needs any more, as XNNPACK does.
  void share(std::vector<Item>* items) const {
    for (size_t i = 0; i < items->size(); ++i) (*items)[i].owner = i, (*items)[i].until = (*items)[i].last;
    for (size_t i = 0; i < operators.size(); ++i) {
      const uint32_t output = operators[i].outputs[0];
      for (uint32_t k = 0; k < operators[i].n_inputs; ++k) {
        const uint32_t input = operators[i].inputs[k];
        if (!inner(input) || !inner(output) || input == output) continue;
        Item& from = (*items)[input];
        Item& to = (*items)[output];
        const auto here = static_cast<int64_t>(i);
        if (from.size != to.size || from.size == 0 || from.last != here || to.first != here) continue;
        to.owner = from.owner;
        (*items)[from.owner].until = std::max((*items)[from.owner].until, to.last);
        break;
      }
    }
  }

  // Plans as XNNPACK may, and gives what it would want.
  size_t plan() {
    std::vector<Item> found = items();
    share(&found);
    std::vector<size_t> order, placed;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].first >= 0 && found[i].size > 0 && found[i].owner == i) order.push_back(i);
    }
    std::shuffle(order.begin(), order.end(), generator);
    size_t peak = 0;
    for (const size_t i : order) {
      found[i].address = kNowhere;
      for (bool moved = true; moved;) {
        moved = false;
        for (const size_t j : placed) {
          const bool meet = found[i].first <= found[j].until && found[j].first <= found[i].until;
          if (!meet || found[i].address >= found[j].address + found[j].rounded()) continue;
          if (found[j].address >= found[i].address + found[i].rounded()) continue;
          found[i].address = found[j].address + found[j].rounded();
          moved = true;
        }
      }
      placed.push_back(i);
      peak = std::max(peak, static_cast<size_t>(found[i].address - kNowhere) + found[i].rounded());
    }
    for (size_t i = 0; i < found.size(); ++i) {
      char* const address = found[found[i].owner].address;
      (i < values.size() ? values[i].data : operators[i - values.size()].workspace) = address;
    }
    return peak == 0 ? 0 : peak + kBeyond;
  }

  // What the layout placed: nothing that lives at the same time may overlap, but for outputs in the place of inputs.
  void check(const char* base, size_t nbytes) const {
    const std::vector<Item> found = items();
    std::vector<size_t> live(operators.size());
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].first < 0 || found[i].size == 0) continue;
      CHECK(found[i].address >= base && found[i].address + found[i].rounded() + kBeyond <= base + nbytes);
      CHECK(static_cast<size_t>(found[i].address - base) % kRounding == 0);
      for (size_t j = 0; j < i; ++j) {
        if (found[j].first < 0 || found[j].size == 0) continue;
        if (found[i].first > found[j].last || found[j].first > found[i].last) continue;
        if (found[i].address >= found[j].address + found[j].rounded()) continue;
        if (found[j].address >= found[i].address + found[i].rounded()) continue;
        CHECK(found[i].address == found[j].address && found[i].size == found[j].size && go_together(i, j));
      }
    }
  }
};

// Learns from shapes that it cannot replay, and gives how many it could.
size_t use(Fake* fake, size_t shapes) {
  Layout layout(fake->object);
  size_t replayed = 0;
  for (size_t k = 0; k < shapes; ++k) {
    fake->resize(1 + below(3000));
    size_t nbytes = 0;
    if (!layout.measure(fake->object, &nbytes)) {
      CHECK(!layout.has_plan());
      const size_t wanted = fake->plan();
      if (wanted == 0 || !layout.can_learn()) continue;
      layout.learn(fake->object, kNowhere, wanted);
      CHECK(layout.measure(fake->object, &nbytes) && nbytes <= wanted);
    } else {
      ++replayed;
    }
    CHECK(layout.has_plan());
    char* const base = kNowhere + kRounding * below(100);
    layout.place(fake->object, base);
    fake->check(base, nbytes);
    layout.forget_sizes(fake->object);
    for (const Value& value : fake->values) CHECK(value.size == 0 || value.allocation_type != kInWorkspace);
  }
  return replayed;
}

// More values than the numbers of a plan can tell apart are left to XNNPACK.
void check_many_values() {
  for (const size_t n_values : {PackedPlan::kMostNumbers - 2, PackedPlan::kMostNumbers - 1}) {
    Fake fake(n_values, 2);
    for (Value& value : fake.values) value.allocation_type = kInWorkspace;
    fake.operators[0].n_inputs = fake.operators[1].n_inputs = 1;
    fake.operators[0].inputs[0] = 0;
    fake.operators[0].outputs[0] = fake.operators[1].inputs[0] = static_cast<uint32_t>(n_values - 1);
    fake.operators[0].n_outputs = fake.operators[1].n_outputs = 1;
    fake.operators[1].outputs[0] = 1;
    Layout layout(fake.object);
    for (Value& value : fake.values) value.size = 100;
    size_t nbytes = 0;
    layout.learn(fake.object, kNowhere, fake.plan());
    const bool fits = n_values + 2 <= PackedPlan::kMostNumbers;
    CHECK(layout.measure(fake.object, &nbytes) == fits && layout.can_learn() == fits);
    if (fits) {
      layout.place(fake.object, kNowhere);
      fake.check(kNowhere, nbytes);
    }
    layout.forget_sizes(fake.object);
    for (const Value& value : fake.values) CHECK(value.size == 0);
  }
}

// Sizes beyond 32 bits of kRounding bytes are XNNPACK's affair, which is asked again for others.
void check_large_sizes() {
  Fake fake(3, 2);
  for (Value& value : fake.values) value.allocation_type = kInWorkspace;
  for (uint32_t i = 0; i < 2; ++i) {
    fake.operators[i].n_inputs = fake.operators[i].n_outputs = 1;
    fake.operators[i].inputs[0] = i;
    fake.operators[i].outputs[0] = i + 1;
  }
  Layout layout(fake.object);
  const auto resize = [&](size_t most, size_t step = 100) {
    for (size_t i = 0; i < 3; ++i) fake.values[i].size = most - step * i;
  };
  size_t nbytes = 0;
  for (const uint64_t most : {PackedPlan::kMostBytes, PackedPlan::kMostBytes + 1, uint64_t{1} << 48, UINT64_MAX - 99}) {
    resize(most);
    if (most < uint64_t{1} << 50) layout.learn(fake.object, kNowhere, fake.plan());
    CHECK(!layout.measure(fake.object, &nbytes) && !layout.has_plan() && layout.can_learn());
  }
  resize(1000);
  layout.learn(fake.object, kNowhere, fake.plan());
  CHECK(layout.measure(fake.object, &nbytes));
  resize(PackedPlan::kMostBytes + 1);
  CHECK(!layout.measure(fake.object, &nbytes));
  resize(PackedPlan::kMostBytes);  // two at once are just not too much together
  CHECK(layout.measure(fake.object, &nbytes));
  resize(PackedPlan::kMostBytes, 1);
  CHECK(!layout.measure(fake.object, &nbytes));
}

// A runtime without inner values is asked once, unless an operator wants scratch later.
void check_empty() {
  Fake fake(4, 3);
  for (Value& value : fake.values) value.allocation_type = kExternal;
  Layout layout(fake.object);
  size_t nbytes = 1;
  CHECK(!layout.measure(fake.object, &nbytes));
  layout.learn_empty();
  CHECK(layout.measure(fake.object, &nbytes) && nbytes == 0 && !layout.has_plan());
  fake.operators[2].workspace_size = 10;
  CHECK(!layout.measure(fake.object, &nbytes));
  fake.values[1].allocation_type = kInWorkspace;
  Layout other(fake.object);
  other.learn_empty();
  fake.operators[2].workspace_size = 0;
  CHECK(!other.measure(fake.object, &nbytes));
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 200;
  size_t replayed = 0;
  for (int round = 0; round < rounds; ++round) {
    Fake fake(1 + below(20), 1 + below(20));
    replayed += use(&fake, 8);
  }
  Fake large(900, 600);  // more buffers than there is room for on the stack
  replayed += use(&large, 3);
  check_many_values();
  check_large_sizes();
  check_empty();
  printf("layout_stress: %zu shapes replayed\n", replayed);
  CHECK(replayed > 0);
  return 0;
}
