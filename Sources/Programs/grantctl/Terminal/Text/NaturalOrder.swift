/// The order of names in which `work2` comes before `work10`.
enum NaturalOrder {
  static func isBefore(_ left: String, _ right: String) -> Bool {
    var (left, right) = (left[...], right[...])
    while let one = left.first, let other = right.first {
      let numbers = (number(left), number(right))
      if !numbers.0.isEmpty, !numbers.1.isEmpty {
        let digits = [numbers.0, numbers.1].map { $0.drop { $0 == "0" } }
        if digits[0] != digits[1] {
          return digits[0].count == digits[1].count ? digits[0] < digits[1] : digits[0].count < digits[1].count
        }
        (left, right) = (left.dropFirst(numbers.0.count), right.dropFirst(numbers.1.count))
      } else {
        if one != other { return one < other }
        (left, right) = (left.dropFirst(), right.dropFirst())
      }
    }
    return left.count < right.count
  }

  private static func number(_ text: Substring) -> Substring { text.prefix { $0.isASCII && $0.isNumber } }
}
