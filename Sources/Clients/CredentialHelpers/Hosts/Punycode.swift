/// RFC 3492, only encoding.
enum Punycode {
  private static let (base, tMin, tMax, skew, damp): (Int, Int, Int, Int, Int) = (36, 1, 26, 38, 700)
  private static let (initialBias, initialN) = (72, 128)
  /// More scalars than any label can have.
  private static let longest = 63

  static func encoded(_ text: String) -> String? {
    let scalars = text.unicodeScalars.map { Int($0.value) }
    guard scalars.count <= longest else { return nil }
    var output = scalars.filter { $0 < 0x80 }.map { UInt8($0) }
    var handled = output.count
    let basic = handled
    if basic > 0 { output.append(0x2D) }
    var (n, delta, bias) = (initialN, 0, initialBias)
    while handled < scalars.count {
      guard let next = scalars.filter({ $0 >= n }).min() else { return nil }
      delta += (next - n) * (handled + 1)
      n = next
      for scalar in scalars {
        if scalar < n { delta += 1 }
        guard scalar == n else { continue }
        append(delta, bias, to: &output)
        bias = adapted(delta, count: handled + 1, isFirst: handled == basic)
        delta = 0
        handled += 1
      }
      delta += 1
      n += 1
    }
    return String(decoding: output, as: UTF8.self)
  }

  private static func append(_ delta: Int, _ bias: Int, to output: inout [UInt8]) {
    var (rest, k) = (delta, base)
    while true {
      let threshold = k <= bias ? tMin : k >= bias + tMax ? tMax : k - bias
      guard rest >= threshold else { break }
      output.append(digit(threshold + (rest - threshold) % (base - threshold)))
      rest = (rest - threshold) / (base - threshold)
      k += base
    }
    output.append(digit(rest))
  }

  private static func digit(_ value: Int) -> UInt8 { UInt8(value < 26 ? 0x61 + value : 0x30 + value - 26) }

  private static func adapted(_ delta: Int, count: Int, isFirst: Bool) -> Int {
    var delta = isFirst ? delta / damp : delta / 2
    delta += delta / count
    var k = 0
    while delta > (base - tMin) * tMax / 2 {
      delta /= base - tMin
      k += base
    }
    return k + (base - tMin + 1) * delta / (delta + skew)
  }
}
