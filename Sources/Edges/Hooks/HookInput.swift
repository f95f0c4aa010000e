import Broker
import BrokerAPI
import PlainText

/// An event in the form for a hook: foreign texts cleaned and limited, the environment, the line of JSON.
struct HookInput {
  /// Unicode scalars of a text for people.
  static let longestText = 512
  /// If the broker itself has none.
  static let standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
  static let standardLanguage = "C.UTF-8"

  let event: Event

  init(_ event: Event) {
    var event = event
    event.account = event.account.map(Self.clean)
    event.provider = event.provider.map(Self.clean)
    event.login_id = event.login_id.map(Self.clean)
    event.message = event.message.map(Self.clean)
    event.hint = event.hint.map(Self.clean)
    event.release = event.release.map(Self.clean)
    self.event = event
  }

  /// One line, with its newline.
  var line: [UInt8] { JSON(encoding: event).serialized() + [UInt8(ascii: "\n")] }

  /// `NAME=value`, sorted: exactly the listed variables.
  ///
  /// - Parameter own: the broker's environment.
  func environment(own: [String: String], pass names: [String]) -> [String] {
    var variables: [String: String] = [:]
    for name in names { variables[name] = own[name] }
    variables["PATH"] = own["PATH"] ?? Self.standardPath
    variables["LANG"] = own["LANG"] ?? Self.standardLanguage
    variables["GRANTD_EVENT"] = event.type.rawValue
    variables["GRANTD_AT"] = String(event.at)
    variables["GRANTD_ACCOUNT"] = event.account
    variables["GRANTD_PROVIDER"] = event.provider
    variables["GRANTD_REASON"] = event.reason?.rawValue
    variables["GRANTD_DETAIL"] = event.detail
    variables["GRANTD_ROTATION"] = event.rotation
    variables["GRANTD_MESSAGE"] = event.message
    variables["GRANTD_HINT"] = event.hint
    variables["GRANTD_GENERATION"] = event.generation.map { String($0) }
    variables["GRANTD_REFRESH_EXPIRES_AT"] = event.refresh_expires_at.map { String($0) }
    variables["GRANTD_LOGIN_ID"] = event.login_id
    if let release = event.release {
      variables["GRANTD_RELEASE_ID"] = release.id
      variables["GRANTD_RELEASE_OUTCOME"] = release.outcome
      variables["GRANTD_METHOD"] = release.method
      variables["GRANTD_SCOPES"] = release.scopes?.joined(separator: " ")
      variables["GRANTD_RULE"] = release.rule
      variables["GRANTD_UNTIL"] = String(release.until)
      variables["GRANTD_CALLER_UID"] = String(release.caller.uid)
      variables["GRANTD_CALLER_PID"] = release.caller.pid.map { String($0) }
      variables["GRANTD_CALLER_UNIT"] = release.caller.unit
      variables["GRANTD_CALLER_USER_UNIT"] = release.caller.user_unit
      variables["GRANTD_CALLER_EXE"] = release.caller.exe
    }
    return variables.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
  }

  /// A program chooses its own name.
  private static func clean(_ release: ReleaseView) -> ReleaseView {
    var release = release
    release.scopes = release.scopes?.map(clean)
    release.resource = release.resource.map(clean)
    release.rule = clean(release.rule)
    release.caller.unit = release.caller.unit.map(clean)
    release.caller.user_unit = release.caller.user_unit.map(clean)
    release.caller.exe = release.caller.exe.map(clean)
    return release
  }

  private static func clean(_ text: String) -> String { clean(text, limit: longestText) }

  /// A provider's message may have any characters: each run of control and invisible format characters becomes one
  /// space.
  static func clean(_ text: String, limit: Int) -> String {
    var result = String.UnicodeScalarView()
    for scalar in text.unicodeScalars.prefix(limit) {
      if scalar.isSafe { result.append(scalar) } else if result.last != " " { result.append(" ") }
    }
    return String(result)
  }
}
