#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace paceline {

/// A list whose copies share their elements, so that the choices of one request store common data once. It
/// has value semantics: editing a shared list copies it first. As with any value, different threads may use
/// different copies at the same time.
template <class T>
class shared_list {
 public:
  using value_type = T;
  using const_iterator = const T*;

  shared_list() = default;
  shared_list(std::vector<T> items) { // NOLINT(google-explicit-constructor): implicit by design
    if (!items.empty()) items_ = std::make_shared<std::vector<T>>(std::move(items));
  }
  shared_list(std::initializer_list<T> items) : shared_list(std::vector<T>(items)) {}

  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept { return items_ ? items_->size() : 0; }
  const T* data() const noexcept { return items_ ? items_->data() : nullptr; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size(); }
  const T& operator[](std::size_t i) const { return (*items_)[i]; }
  const T& front() const { return items_->front(); }
  const T& back() const { return items_->back(); }
  operator const std::vector<T>&() const noexcept { // NOLINT(google-explicit-constructor)
    static const std::vector<T> none;
    return items_ ? *items_ : none;
  }

  /// The elements for modification; other lists do not change.
  std::vector<T>& edit() {
    if (!items_)
      items_ = std::make_shared<std::vector<T>>();
    else if (items_.use_count() > 1)
      items_ = std::make_shared<std::vector<T>>(*items_);
    return *items_;
  }
  void push_back(T item) { edit().push_back(std::move(item)); }
  template <class... Arguments>
  void emplace_back(Arguments&&... arguments) {
    edit().emplace_back(std::forward<Arguments>(arguments)...);
  }
  void resize(std::size_t size) { edit().resize(size); }
  void assign(std::size_t count, const T& item) { edit().assign(count, item); }
  void clear() { items_.reset(); }

  /// True if both share their elements.
  bool shares_with(const shared_list& other) const noexcept { return items_ && items_ == other.items_; }
  friend bool operator==(const shared_list& a, const shared_list& b) {
    return static_cast<const std::vector<T>&>(a) == static_cast<const std::vector<T>&>(b);
  }

 private:
  std::shared_ptr<std::vector<T>> items_; ///< never changed while shared
};

} // namespace paceline
