// Boost.URL, compiled here as a part of this library: the package of its headers has no library to link with.
#include <boost/url/src.hpp>
