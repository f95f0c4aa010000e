import BrokerAPI
import FoundationEssentials
import Grants

/// The result of a callback URL: shown by the callback page and returned by `login.handle_callback`.
enum CallbackVerdict {
  case completed(LoginID, AccountName, ProviderName)
  /// Its login has been taken by another callback.
  case taken(LoginID)
  /// The person has to do something more.
  case actionRequired(LoginID, LoginAction)
  /// The login ended with this error.
  case failed(RPCError)
  /// Nothing changed.
  case refused(RPCError)
  /// The browser continues.
  case passedOn(URL)
  /// A person came back from the end of a session.
  case signedOut(ProviderName)
  /// The browser is not that of the login's user.
  case foreignBrowser(BrowserRefusal)
  /// No login of ours.
  case foreign
}

extension CallbackVerdict {
  /// The next step for a browser, with the command of this login: its page is all that the user sees.
  func naming(_ login: SavedLogin) -> Self {
    guard case .failed(var error) = self else { return self }
    let command = "`grantctl login \(login.provider) \(login.account)`"
    error.hint = error.hint?.replacing("`grantctl login`", with: command) ?? "Run \(command) again."
    return .failed(error)
  }
}
