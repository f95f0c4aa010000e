/// One metric with its samples, as OpenMetrics 1.0 has them.
public struct MetricFamily: Sendable {
  public enum Kind: String, Sendable {
    case counter, gauge, histogram, info, stateset
  }

  public struct Label: Sendable {
    public var name: String
    public var value: String
  }

  struct Sample {
    /// The suffix of the family's name: `_total`, `_bucket`.
    var suffix: String
    var labels: [Label]
    var value: String
  }

  public let kind: Kind
  /// Without `_total`; it ends with `_` and the unit, if any.
  public let name: String
  public let unit: String?
  public let help: String
  private(set) var samples: [Sample] = []

  /// - Parameter unit: the base unit, which the name ends with: `seconds`, `bytes`.
  public init(_ kind: Kind, _ name: String, unit: String? = nil, _ help: String) {
    precondition(unit.map { name.hasSuffix("_\($0)") } ?? true, "the name of a metric ends with its unit")
    self.kind = kind
    self.name = name
    self.unit = unit
    self.help = help
  }

  public mutating func add(_ count: UInt64, _ labels: KeyValuePairs<String, String> = [:]) {
    add("\(count)", labels)
  }

  public mutating func add(_ count: Int, _ labels: KeyValuePairs<String, String> = [:]) { add("\(count)", labels) }

  public mutating func add(_ number: Double, _ labels: KeyValuePairs<String, String> = [:]) {
    add(number.openMetrics, labels)
  }

  /// In seconds.
  public mutating func add(_ time: Duration, _ labels: KeyValuePairs<String, String> = [:]) {
    add(time.inSeconds, labels)
  }

  private mutating func add(_ value: String, _ labels: KeyValuePairs<String, String>) {
    let suffix =
      switch kind {
      case .counter: "_total"
      case .info: "_info"
      case .gauge, .histogram, .stateset: ""
      }
    samples.append(Sample(suffix: suffix, labels: labels.map(Label.init), value: value))
  }

  /// One sample for each state, of which one is so.
  public mutating func add(state: String, of states: [String], _ labels: KeyValuePairs<String, String> = [:]) {
    for other in states {
      let all = labels.map(Label.init) + [Label(name: name, value: other)]
      samples.append(Sample(suffix: "", labels: all, value: other == state ? "1" : "0"))
    }
  }

  mutating func add(_ histogram: Histogram, _ labels: KeyValuePairs<String, String> = [:]) {
    let labels = labels.map(Label.init)
    var total: UInt64 = 0
    for (index, count) in histogram.counts.enumerated() {
      total += count
      let bound = index < histogram.bounds.count ? histogram.bounds[index].inSeconds.openMetrics : "+Inf"
      samples.append(
        Sample(suffix: "_bucket", labels: labels + [Label(name: "le", value: bound)], value: "\(total)"))
    }
    samples.append(Sample(suffix: "_count", labels: labels, value: "\(total)"))
    samples.append(Sample(suffix: "_sum", labels: labels, value: histogram.sum.inSeconds.openMetrics))
  }
}

/// The text format of OpenMetrics 1.0.
public enum OpenMetrics {
  public static let contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

  /// Families without samples are left out: there is nothing to say.
  public static func text(_ families: [MetricFamily]) -> String {
    var text = ""
    for family in families where !family.samples.isEmpty {
      text += "# TYPE \(family.name) \(family.kind.rawValue)\n"
      if let unit = family.unit { text += "# UNIT \(family.name) \(unit)\n" }
      text += "# HELP \(family.name) \(escaped(family.help))\n"
      for sample in family.samples {
        text += family.name + sample.suffix
        if !sample.labels.isEmpty {
          text += "{" + sample.labels.map { "\($0.name)=\"\(escaped($0.value))\"" }.joined(separator: ",") + "}"
        }
        text += " \(sample.value)\n"
      }
    }
    return text + "# EOF\n"
  }

  private static func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": result += "\\\\"
      case "\"": result += "\\\""
      case "\n": result += "\\n"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}

extension Double {
  /// As a number of OpenMetrics; `le` and its like want it canonical, which Swift's own form is for every bucket.
  fileprivate var openMetrics: String {
    if isNaN { return "NaN" }
    if isInfinite { return self < 0 ? "-Inf" : "+Inf" }
    return description
  }
}

extension Duration {
  /// With fractions.
  var inSeconds: Double {
    let (seconds, attoseconds) = components
    return Double(seconds) + Double(attoseconds) / 1e18
  }
}
