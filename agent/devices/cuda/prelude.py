"""What programs may take for granted: the names and headers that are written by habit.

NVRTC has no C or C++ library of the system. :data:`TEXT` is read before every program and defines
what kernels use of it (integer types, limits, ``std::max``, traits, mathematics in ``std``, the
tensor map's type); an ``#include`` of a header in :data:`STAND_INS` is then blanked, because all
that it would bring is there. It uses no CCCL header: those take a second to read.
"""

from __future__ import annotations

STAND_INS = frozenset(
    {
        "stdint.h", "cstdint", "inttypes.h", "cinttypes", "stddef.h", "cstddef", "math.h", "cmath",
        "float.h", "cfloat", "limits.h", "climits", "limits", "type_traits", "algorithm",
        "utility", "assert.h", "cassert", "stdio.h", "cstdio", "string.h", "cstring", "stdlib.h",
        "cstdlib", "stdbool.h", "initializer_list", "numeric",
        "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_device_runtime_api.h",
        "device_launch_parameters.h", "device_functions.h", "driver_types.h", "vector_types.h",
        "vector_functions.h", "builtin_types.h", "cudaTypedefs.h", "math_functions.h",
        "device_atomic_functions.h", "sm_20_intrinsics.h", "sm_30_intrinsics.h",
        "sm_32_intrinsics.h", "sm_60_atomic_functions.h", "sm_61_intrinsics.h",
    }
)  # fmt: skip

_HEAD = """#pragma once
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int8_t int_fast8_t; typedef int16_t int_least16_t; typedef int32_t int_fast32_t;
typedef uint8_t uint_fast8_t; typedef uint32_t uint_fast32_t;
typedef uint64_t uintptr_t; typedef int64_t intptr_t; typedef long ssize_t;
#define INFINITY __builtin_bit_cast(float, 0x7f800000u)
#define NAN __builtin_bit_cast(float, 0x7fc00000u)
#define HUGE_VALF INFINITY
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000ull)
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX 18446744073709551615ull
#define INT8_MIN SCHAR_MIN
#define INT8_MAX SCHAR_MAX
#define UINT8_MAX UCHAR_MAX
#define INT16_MIN SHRT_MIN
#define INT16_MAX SHRT_MAX
#define UINT16_MAX USHRT_MAX
#define INT32_MIN INT_MIN
#define INT32_MAX INT_MAX
#define UINT32_MAX UINT_MAX
#define INT64_MIN LLONG_MIN
#define INT64_MAX LLONG_MAX
#define UINT64_MAX ULLONG_MAX
#define SIZE_MAX ULONG_MAX
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#undef assert
#define assert(condition) ((condition) ? (void)0 : __trap())
struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef struct CUtensorMap_st CUtensorMap;
namespace std {
using ::size_t; using ::ptrdiff_t; typedef decltype(nullptr) nullptr_t;
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::uint8_t;
using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t; using ::intptr_t;
"""

_TRAITS = """
template <class T, T V> struct integral_constant {
    static constexpr T value = V; typedef T value_type; typedef integral_constant type;
    __device__ constexpr operator T() const { return V; }
    __device__ constexpr T operator()() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type; typedef bool_constant<false> false_type;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_volatile { typedef T type; };
template <class T> struct remove_volatile<volatile T> { typedef T type; };
template <class T> struct remove_cv {
    typedef typename remove_const<typename remove_volatile<T>::type>::type type;
};
template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T&> { typedef T type; };
template <class T> struct remove_reference<T&&> { typedef T type; };
template <class T> struct remove_pointer { typedef T type; };
template <class T> struct remove_pointer<T*> { typedef T type; };
template <class T> struct remove_extent { typedef T type; };
template <class T> struct remove_extent<T[]> { typedef T type; };
template <class T, size_t N> struct remove_extent<T[N]> { typedef T type; };
template <class T> struct decay {
    typedef typename remove_cv<typename remove_reference<T>::type>::type type;
};
template <class T> struct remove_cvref : decay<T> {};
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_cvref_t = typename remove_cvref<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using decay_t = typename decay<T>::type;
template <class... T> using void_t = void;
template <class T> __device__ T&& declval() noexcept;
template <class T> struct forge_integral : false_type {};
template <class T> struct is_integral : forge_integral<remove_cv_t<T>> {};
template <class T> struct forge_floating : false_type {};
template <> struct forge_floating<float> : true_type {};
template <> struct forge_floating<double> : true_type {};
template <class T> struct is_floating_point : forge_floating<remove_cv_t<T>> {};
template <class T> struct is_arithmetic
    : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T*> : true_type {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_void : is_same<remove_cv_t<T>, void> {};
template <class T, bool = is_arithmetic<T>::value>
struct is_signed : bool_constant<T(-1) < T(0)> {};
template <class T> struct is_signed<T, false> : false_type {};
template <class T> struct is_unsigned
    : bool_constant<is_integral<T>::value && !is_signed<T>::value> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class T> inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> inline constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T> inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T> inline constexpr bool is_void_v = is_void<T>::value;
template <class T> inline constexpr bool is_trivially_copyable_v = is_trivially_copyable<T>::value;
"""

_FUNCTIONS = """
template <class T> __device__ constexpr const T& min(const T& a, const T& b) {
    return b < a ? b : a;
}
template <class T> __device__ constexpr const T& max(const T& a, const T& b) {
    return a < b ? b : a;
}
template <class T> __device__ constexpr const T& clamp(const T& v, const T& a, const T& b) {
    return v < a ? a : b < v ? b : v;
}
template <class T> __device__ constexpr void swap(T& a, T& b) {
    T kept = static_cast<T&&>(a); a = static_cast<T&&>(b); b = static_cast<T&&>(kept);
}
template <class T, class U = T> __device__ constexpr T exchange(T& a, U&& b) {
    T old = static_cast<T&&>(a); a = static_cast<U&&>(b); return old;
}
template <class A, class B> struct pair { A first; B second; };
template <class A, class B> __device__ constexpr pair<A, B> make_pair(A a, B b) { return {a, b}; }
template <class T, size_t N> struct array {
    T forge_items[N];
    __device__ constexpr T& operator[](size_t i) { return forge_items[i]; }
    __device__ constexpr const T& operator[](size_t i) const { return forge_items[i]; }
    __device__ constexpr T* data() { return forge_items; }
    __device__ constexpr const T* data() const { return forge_items; }
    __device__ static constexpr size_t size() { return N; }
    __device__ constexpr T* begin() { return forge_items; }
    __device__ constexpr T* end() { return forge_items + N; }
};
"""

# Templates throughout: what is not used becomes no code.
_LIMITS = """
template <class T, bool Whole, bool Real> struct forge_limits {
    static constexpr bool is_specialized = false;
};
template <class T> struct forge_limits<T, true, false> {
    static constexpr bool is_specialized = true, is_integer = true, is_exact = true;
    static constexpr bool is_signed = (T)-1 < (T)0, has_infinity = false, has_quiet_NaN = false;
    static constexpr int digits = is_same<T, bool>::value ? 1 : int(sizeof(T)) * 8 - is_signed;
    __device__ static constexpr T max() noexcept { return (T)(~0ull >> (64 - digits)); }
    __device__ static constexpr T min() noexcept { return is_signed ? (T)(-max() - 1) : (T)0; }
    __device__ static constexpr T lowest() noexcept { return min(); }
    __device__ static constexpr T epsilon() noexcept { return (T)0; }
    __device__ static constexpr T infinity() noexcept { return (T)0; }
    __device__ static constexpr T quiet_NaN() noexcept { return (T)0; }
};
template <class T> struct forge_limits<T, false, true> {
    static constexpr bool is_specialized = true, is_integer = false, is_exact = false;
    static constexpr bool is_signed = true, has_infinity = true, has_quiet_NaN = true;
    static constexpr int digits = sizeof(T) == 4 ? FLT_MANT_DIG : DBL_MANT_DIG;
    __device__ static constexpr T max() noexcept { return (T)(sizeof(T) == 4 ? FLT_MAX : DBL_MAX); }
    __device__ static constexpr T min() noexcept { return (T)(sizeof(T) == 4 ? FLT_MIN : DBL_MIN); }
    __device__ static constexpr T lowest() noexcept { return -max(); }
    __device__ static constexpr T epsilon() noexcept {
        return (T)(sizeof(T) == 4 ? FLT_EPSILON : DBL_EPSILON);
    }
    __device__ static constexpr T infinity() noexcept { return (T)INFINITY; }
    __device__ static constexpr T quiet_NaN() noexcept { return (T)NAN; }
};
template <class T> struct numeric_limits
    : forge_limits<T, is_integral<T>::value, is_floating_point<T>::value> {};
"""
_INTEGERS = (
    "bool", "char", "signed char", "unsigned char", "short", "unsigned short", "int",
    "unsigned int", "long", "unsigned long", "long long", "unsigned long long",
)  # fmt: skip
# The float overloads of NVRTC's own functions are in the global namespace.
_MATH = (
    "abs", "fabs", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sqrt", "cbrt",
    "hypot", "erf", "erfc", "tgamma", "lgamma", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc",
    "rint", "nearbyint", "lround", "llround", "lrint", "llrint", "fmod", "remainder", "fma",
    "fmin", "fmax", "fdim", "copysign", "nextafter", "ldexp", "frexp", "modf", "scalbn", "ilogb",
    "logb", "isnan", "isinf", "isfinite", "signbit", "memcpy", "memset",
)  # fmt: skip


TEXT = "".join(
    [
        _HEAD,
        _TRAITS,
        _FUNCTIONS,
        "".join(
            f"template <> struct forge_integral<{kind}> : true_type {{}};\n" for kind in _INTEGERS
        ),
        _LIMITS,
        "".join(f"using ::{name};\n" for name in _MATH),
        "}\n",
    ]
)
