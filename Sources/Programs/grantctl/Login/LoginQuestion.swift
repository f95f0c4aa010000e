import BrokerAPI

/// What a person is asked, line by line, so that a login can go on.
enum LoginQuestion: Sendable {
  case session([SessionView])
  /// Whether to go on, after the person has ended a session elsewhere.
  case again
  case registration(RegistrationForm)

  /// The meaning of a typed line.
  enum ParsedAnswer: Sendable {
    /// Ask again, after this.
    case again(String?)
    case session(String)
    case attributes([String: JSON])
    case retry
  }

  var prompt: String {
    switch self {
    case .session(let sessions): "Replace which session? [1-\(sessions.count), oldest, offline] "
    case .again: "Press Enter to go on: "
    case .registration(let form): form.prompt
    }
  }

  mutating func answer(_ line: String) -> ParsedAnswer {
    switch self {
    case .session(let sessions):
      let wish = line.filter { !$0.isWhitespace }
      if let number = Int(wish), sessions.indices.contains(number - 1) {
        return .session(sessions[number - 1].session_id)
      }
      guard !wish.isEmpty, Int(wish) == nil || sessions.contains(where: { $0.session_id == wish }) else {
        return .again("Give the number of a session, from 1 to \(sessions.count), its ID, oldest or offline.")
      }
      switch sessions.chosen(by: wish) {
      case .success(let id): return .session(id)
      case .failure(let objection): return .again(objection.text)
      }
    case .again: return .retry
    case .registration(var form):
      defer { self = .registration(form) }
      return form.answer(line)
    }
  }
}

/// What the provider wants to know of a person. It does not say what: the person names it.
struct RegistrationForm: Sendable {
  private(set) var attributes: [String: JSON] = [:]
  /// What the provider found wrong and is still to be asked.
  private var wrong: [String] = []

  /// After an answer of the provider: what it did not like is asked by name.
  init(_ attributes: [String: JSON] = [:], wrong: [String] = []) {
    self.attributes = attributes
    self.wrong = wrong
  }

  var prompt: String {
    guard let name = wrong.first else { return "name=value (an empty line sends): " }
    let before = attributes[name].map { " [\(SafeText.line($0.string ?? Shell.line($0)))]" } ?? ""
    return "\(SafeText.line(name))\(before): "
  }

  mutating func answer(_ line: String) -> LoginQuestion.ParsedAnswer {
    let text = Self.trimmed(line)
    if let name = wrong.first {
      wrong.removeFirst()
      if !text.isEmpty { attributes[name] = .string(text) }
      return .again(nil)
    }
    guard !text.isEmpty else { return .attributes(attributes) }
    guard let (name, value) = NameValue.split(text), !Self.trimmed(name).isEmpty else {
      return .again("Write it as name=value.")
    }
    attributes[Self.trimmed(name)] = .string(Self.trimmed(value))
    return .again(nil)
  }

  private static func trimmed(_ text: String) -> String { text.trimmed }
}
