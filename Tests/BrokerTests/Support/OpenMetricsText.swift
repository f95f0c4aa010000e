import Foundation

/// A strict reader of OpenMetrics 1.0 text: what its grammar and its rules do not allow is an error.
struct OpenMetricsText {
  struct Bad: Error, CustomStringConvertible {
    let description: String
  }

  struct Sample {
    var name: String
    var labels: [String: String]
    var value: Double
  }

  struct Family {
    var name: String
    var type = "unknown"
    var unit: String?
    var help: String?
    var samples: [Sample] = []
  }

  private(set) var families: [Family] = []

  init(_ text: String) throws {
    guard text.hasSuffix("\n# EOF\n") || text == "# EOF\n" else { throw Bad(description: "it does not end with # EOF") }
    for line in text.dropLast("# EOF\n".count).split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
      do {
        try read(String(line))
      } catch {
        throw Bad(description: "\(error): \(line)")
      }
    }
    for family in families { try check(family) }
  }

  /// The value of the sample with these labels; nil if there is none.
  func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
    families.flatMap(\.samples).first { $0.name == name && $0.labels == labels }?.value
  }

  func family(_ name: String) -> Family? { families.first { $0.name == name } }

  private mutating func read(_ line: String) throws {
    if line.hasPrefix("#") { return try readDescriptor(line) }
    var scanner = Scanner(Array(line.unicodeScalars))
    let name = try scanner.name(allowing: ":")
    let labels = try scanner.labels()
    try scanner.expect(" ")
    let number = scanner.rest
    guard number.wholeMatch(of: /[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[-+]?[0-9]+)?|NaN|[-+]Inf/) != nil,
      let value = number == "NaN" ? .nan : Double(number.replacing("Inf", with: "infinity"))
    else { throw Bad(description: "no number") }
    guard let last = families.indices.last, Self.names(families[last]).contains(name) else {
      throw Bad(description: "a sample outside of its family")
    }
    guard !families[last].samples.contains(where: { $0.name == name && $0.labels == labels }) else {
      throw Bad(description: "a sample twice")
    }
    families[last].samples.append(Sample(name: name, labels: labels, value: value))
  }

  private mutating func readDescriptor(_ line: String) throws {
    let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
    guard words.count == 4, words[0] == "#" else { throw Bad(description: "no descriptor") }
    var scanner = Scanner(Array(words[2].unicodeScalars))
    let name = try scanner.name(allowing: ":")
    guard scanner.rest.isEmpty else { throw Bad(description: "no name") }
    if families.last?.name != name {
      guard !families.contains(where: { $0.name == name }) else { throw Bad(description: "a family in two pieces") }
      families.append(Family(name: name))
    }
    let last = families.count - 1
    guard families[last].samples.isEmpty else { throw Bad(description: "a descriptor after a sample") }
    switch words[1] {
    case "TYPE":
      let types = ["counter", "gauge", "histogram", "info", "stateset", "gaugehistogram", "summary", "unknown"]
      guard families[last].type == "unknown", types.contains(words[3]) else { throw Bad(description: "no type") }
      families[last].type = words[3]
    case "UNIT":
      guard families[last].unit == nil, name.hasSuffix("_\(words[3])") else { throw Bad(description: "no unit of it") }
      families[last].unit = words[3]
    case "HELP":
      guard families[last].help == nil else { throw Bad(description: "two helps") }
      var text = Scanner(Array(words[3].unicodeScalars))
      families[last].help = try text.escapedText(until: nil)
    default: throw Bad(description: "no descriptor")
    }
  }

  private static func names(_ family: Family) -> [String] {
    switch family.type {
    case "counter": ["_total", "_created"].map { family.name + $0 }
    case "histogram": ["_bucket", "_count", "_sum", "_created"].map { family.name + $0 }
    case "info": [family.name + "_info"]
    default: [family.name]
    }
  }

  private func check(_ family: Family) throws {
    guard family.type != "unknown", family.help != nil else {
      throw Bad(description: "\(family.name) is not described")
    }
    guard !family.name.hasSuffix("_total"), !family.name.hasSuffix("_info") else {
      throw Bad(description: "\(family.name) ends with the suffix of a sample")
    }
    switch family.type {
    case "counter":
      guard family.samples.allSatisfy({ $0.value >= 0 }) else { throw Bad(description: "\(family.name) is below 0") }
    case "info":
      guard family.samples.allSatisfy({ $0.value == 1 }) else { throw Bad(description: "\(family.name) is not 1") }
    case "stateset":
      guard family.unit == nil,
        family.samples.allSatisfy({ $0.labels[family.name] != nil && [0, 1].contains($0.value) })
      else { throw Bad(description: "\(family.name) is not a set of states") }
    case "histogram": try checkHistogram(family)
    default: break
    }
  }

  private func checkHistogram(_ family: Family) throws {
    let groups = Dictionary(grouping: family.samples) { sample in sample.labels.filter { $0.key != "le" } }
    for (_, samples) in groups {
      let buckets = samples.filter { $0.name.hasSuffix("_bucket") }
      let bounds = try buckets.map { bucket -> Double in
        // Canonical numbers only.
        guard let text = bucket.labels["le"], let bound = Double(text.replacing("Inf", with: "infinity")),
          text == "+Inf" || text == "\(bound)"
        else { throw Bad(description: "\(family.name) has a bucket without a bound") }
        return bound
      }
      let counts = buckets.map(\.value)
      guard bounds == bounds.sorted(), bounds.last == .infinity, counts == counts.sorted(),
        samples.first(where: { $0.name.hasSuffix("_count") })?.value == counts.last,
        let sum = samples.first(where: { $0.name.hasSuffix("_sum") })?.value, sum >= 0
      else { throw Bad(description: "\(family.name) does not add up") }
    }
  }

  private struct Scanner {
    let scalars: [Unicode.Scalar]
    var at = 0

    init(_ scalars: [Unicode.Scalar]) { self.scalars = scalars }

    var rest: String {
      var text = String.UnicodeScalarView()
      text.append(contentsOf: scalars[at...])
      return String(text)
    }

    mutating func expect(_ scalar: Unicode.Scalar) throws {
      guard at < scalars.count, scalars[at] == scalar else { throw Bad(description: "\(scalar) is missing") }
      at += 1
    }

    mutating func name(allowing more: Unicode.Scalar?) throws -> String {
      let begin = at
      while at < scalars.count, scalars[at].isASCII,
        scalars[at].properties.isAlphabetic || scalars[at] == "_" || scalars[at] == more
          || (at > begin && ("0"..."9").contains(scalars[at]))
      { at += 1 }
      guard at > begin else { throw Bad(description: "no name") }
      return scalars[begin..<at].map { String($0) }.joined()
    }

    mutating func labels() throws -> [String: String] {
      guard at < scalars.count, scalars[at] == "{" else { return [:] }
      at += 1
      var labels: [String: String] = [:]
      while true {
        let name = try name(allowing: nil)
        try expect("=")
        try expect("\"")
        let value = try escapedText(until: "\"")
        guard labels.updateValue(value, forKey: name) == nil else { throw Bad(description: "a label twice") }
        if at < scalars.count, scalars[at] == "," {
          at += 1
          continue
        }
        try expect("}")
        return labels
      }
    }

    /// With the end mark, if there is one.
    mutating func escapedText(until end: Unicode.Scalar?) throws -> String {
      var text = String.UnicodeScalarView()
      while at < scalars.count {
        let scalar = scalars[at]
        at += 1
        switch scalar {
        case "\\":
          guard at < scalars.count else { throw Bad(description: "a lone backslash") }
          text.append(scalars[at] == "n" ? "\n" : scalars[at])
          at += 1
        case "\"":
          guard end == "\"" else { throw Bad(description: "a bare quotation mark") }
          return String(text)
        default: text.append(scalar)
        }
      }
      guard end == nil else { throw Bad(description: "no end of the text") }
      return String(text)
    }
  }
}
