import ArgumentParser
import BrokerAPI

/// Answers from the command line, if a login needs more input of the user than to sign in.
struct PresetAnswers: ParsableArguments {
  /// The words of `replace_session` in the configuration.
  static let oldest = "oldest"
  static let offline = "offline"

  @Option(
    name: [.customLong("replace-session"), .customLong("replace")],
    help: ArgumentHelp(
      "If the session limit is reached, replace: an ID, “oldest” or “offline”.", valueName: "id"))
  var replaceSession: String?
  @Option(
    help: ArgumentHelp(
      "An attribute that the provider asks for at the first sign-in. Can be repeated.", valueName: "name=value"))
  var attribute: [String] = []
  @Option(
    help: ArgumentHelp("The same, with the value in JSON: true, 7, [\"a\"]. Can be repeated.", valueName: "name=json"))
  var attributeJson: [String] = []

  func validate() throws {
    _ = try attributes()
    if replaceSession == "" { throw ValidationError("--replace-session is empty.") }
  }

  func attributes() throws -> [String: JSON] {
    var attributes: [String: JSON] = [:]
    for (option, texts) in [("--attribute", attribute), ("--attribute-json", attributeJson)] {
      for (name, text) in try NameValue.parse(texts, option: option) {
        let value: JSON
        if option == "--attribute" {
          value = .string(text)
        } else if let parsed = try? JSON.parse(Array(text.utf8)) {
          value = parsed
        } else {
          throw ValidationError("\(option) \(name) is not valid JSON: a text takes quotation marks, or --attribute.")
        }
        guard attributes.updateValue(value, forKey: name) == nil else {
          throw ValidationError("The attribute \(name) is given twice.")
        }
      }
    }
    return attributes
  }
}

/// Arguments of the form `name=value`.
enum NameValue {
  static func split(_ text: String) -> (name: String, value: String)? {
    guard let sign = text.firstIndex(of: "="), sign > text.startIndex else { return nil }
    return (String(text[..<sign]), String(text[text.index(after: sign)...]))
  }

  static func parse(_ arguments: [String], option: String) throws -> [String: String] {
    var values: [String: String] = [:]
    for text in arguments {
      guard let (name, value) = split(text) else { throw ValidationError("\(option) is name=value, not “\(text)”.") }
      guard values.updateValue(value, forKey: name) == nil else {
        throw ValidationError("\(option) \(name) is given twice.")
      }
    }
    return values
  }
}
