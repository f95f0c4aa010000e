import BlockingClient
import BrokerAPI

/// The exit status of grantctl. A test compares `--help` and docs/programs.md with this table.
enum ExitStatus: Int32, CaseIterable, Sendable {
  case success = 0
  case failure = 1
  case loginRequired = 3
  case notPermitted = 4
  case temporarilyUnavailable = 5
  case notRunning = 6
  case unknownName = 7
  case loginFailed = 8
  case actionRequired = 9
  /// As curl's.
  case httpError = 22
  /// ArgumentParser's own (EX_USAGE of sysexits.h).
  case usage = 64
  /// EX_CONFIG of sysexits.h.
  case configuration = 78
  /// As env(1) has them: `exec` alone.
  case programNotStarted = 126
  case noProgram = 127
  /// 128 + SIGINT, as shells say it.
  case interrupted = 130

  /// For the tables, without a full stop.
  var meaning: String {
    switch self {
    case .success: "done"
    case .failure: "any other failure"
    case .loginRequired: "the user has to sign in first"
    case .notPermitted: "the policy or the socket's permissions do not allow it"
    case .temporarilyUnavailable: "not now: try again later"
    case .notRunning: "grantd is not running"
    case .unknownName: "no such account, provider or login"
    case .loginFailed: "the login was denied, cancelled or expired"
    case .actionRequired: "the login needs further input"
    case .httpError: "the server of `request` answered with HTTP 400 or more"
    case .usage: "wrong arguments"
    case .configuration: "configuration error"
    case .programNotStarted: "the program of `exec` cannot be started"
    case .noProgram: "there is no such program for `exec`"
    case .interrupted: "interrupted (Ctrl-C)"
    }
  }

  /// The word for `data.reason` in JSON errors that no broker made.
  var word: String {
    switch self {
    case .success: "success"
    case .failure: "failure"
    case .loginRequired: "login_required"
    case .notPermitted: "not_permitted"
    case .temporarilyUnavailable: "temporarily_unavailable"
    case .notRunning: "not_running"
    case .unknownName: "unknown_name"
    case .loginFailed: "login_failed"
    case .actionRequired: "action_required"
    case .httpError: "http_error"
    case .usage: "usage"
    case .configuration: "configuration"
    case .programNotStarted: "program_not_started"
    case .noProgram: "no_program"
    case .interrupted: "interrupted"
    }
  }

  init(_ reason: ErrorReason) {
    switch reason {
    case .unknownAccount, .unknownProvider, .unknownLogin: self = .unknownName
    case .notPermitted: self = .notPermitted
    case .loginRequired: self = .loginRequired
    case .loginDenied, .loginCancelled, .loginExpired: self = .loginFailed
    case .temporarilyUnavailable, .timedOut, .rateLimited, .overloaded, .storeFailure, .shuttingDown, .locked:
      self = .temporarilyUnavailable
    case .providerMisconfigured, .invalidConfiguration, .keyNotReplaceable: self = .configuration
    case .loginInProgress, .invalidCallback, .providerError, .scopeNotGranted, .unsupportedByProvider,
      .registrationRejected, .invalidBackup:
      self = .failure
    }
  }

  init(_ error: RPCError) {
    if let reason = error.reason {
      self.init(reason)
    } else {
      self = error.code == RPCError.invalidParams("").code ? .usage : .failure
    }
  }

  init(_ error: SocketClientError) {
    switch error {
    case .rpc(let error): self.init(error)
    case .notRunning, .disconnected: self = .notRunning
    case .permissionDenied: self = .notPermitted
    case .timedOut: self = .temporarilyUnavailable
    case .foreignServer, .malformed: self = .failure
    }
  }

  /// The lines of the table in `--help`.
  static var table: String {
    let width = allCases.map { "\($0.rawValue)".count }.max() ?? 0
    return allCases.map { status in
      let code = "\(status.rawValue)"
      return "  " + code + String(repeating: " ", count: width - code.count) + "  " + status.meaning
    }.joined(separator: "\n")
  }
}
