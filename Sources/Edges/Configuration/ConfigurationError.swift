/// What is wrong with the configuration, printed like a compiler does: a line for each problem.
public struct ConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
  /// More problems than this are only counted.
  public static let limit = 20

  public var problems: [Problem]
  /// How many more there are.
  public var omitted: Int

  public init(_ problems: [Problem], omitted: Int = 0) {
    self.problems = problems
    self.omitted = omitted
  }

  public var description: String {
    let rest = omitted > 0 ? ["and \(omitted) more"] : []
    return (problems.map(\.description) + rest).joined(separator: "\n")
  }

  /// One problem: `/etc/grantd/grantd.toml:12: unknown key "isuer" in [provider.work]: did you mean "issuer"?`
  public struct Problem: Sendable, Equatable, CustomStringConvertible {
    public var file: String
    /// From 1; nil for the whole file.
    public var line: Int?
    public var column: Int?
    public var message: String
    /// What to do about it.
    public var suggestion: String?

    public init(file: String, line: Int? = nil, column: Int? = nil, message: String, suggestion: String? = nil) {
      self.file = file
      self.line = line
      self.column = column
      self.message = message
      self.suggestion = suggestion
    }

    public var description: String {
      let place = [file, line.map(String.init), column.map(String.init)].compactMap(\.self).joined(separator: ":")
      return "\(place): \(message)\(suggestion.map { ": \($0)" } ?? "")"
    }
  }
}

/// Where something is written.
struct FileLocation: Sendable, Hashable, CustomStringConvertible {
  var file: String
  var line: Int?

  var description: String { line.map { "\(file):\($0)" } ?? file }
}

/// All problems: reading continues after a problem, so that one run reports them all.
struct ConfigurationReport {
  private(set) var problems: [ConfigurationError.Problem] = []
  private(set) var omitted = 0
  private(set) var warnings: [String] = []

  mutating func problem(_ message: String, at place: FileLocation, column: Int? = nil, suggestion: String? = nil) {
    let problem = ConfigurationError.Problem(
      file: place.file, line: place.line, column: column, message: message, suggestion: suggestion)
    guard !problems.contains(problem) else { return }
    if problems.count < ConfigurationError.limit { problems.append(problem) } else { omitted += 1 }
  }

  mutating func warning(_ message: String, at place: FileLocation) {
    warnings.append("\(place): \(message)")
  }

  var error: ConfigurationError? {
    problems.isEmpty ? nil : ConfigurationError(problems, omitted: omitted)
  }
}
