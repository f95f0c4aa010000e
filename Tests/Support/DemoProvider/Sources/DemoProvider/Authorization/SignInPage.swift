extension Page {
  /// Sign-in where no OAuth request stands behind it: `answers` are the buttons, by the value of `decision`.
  static func signIn(
    title: String, action: String, hidden: [(String, String)], userName: String,
    answers: [(String, String)] = [("allow", "Sign in"), ("deny", "Cancel")], problem: String?
  ) -> Self {
    let fields = hidden.reduce("" as HTML) {
      $0 + "<input type=\"hidden\" name=\"\($1.0)\" value=\"\($1.1)\">\n"
    }
    let buttons = answers.enumerated().reduce("" as HTML) { markup, answer in
      let (value, label) = answer.element
      let yes: HTML = answer.offset == 0 ? " class=\"yes\"" : ""
      return markup + "<button\(yes) type=\"submit\" name=\"decision\" value=\"\(value)\">\(label)</button>\n"
    }
    let alert: HTML = problem.map { "<p class=\"bad\" role=\"alert\" id=\"problem\">\($0)</p>" } ?? ""
    return Self(
      title: title,
      content: """
        <h1>\(title)</h1>
        \(alert)
        <form method="post" action="\(action)">
        \(fields)<label for="username">User name</label>
        <input id="username" name="username" value="\(userName)" required autofocus autocomplete="username" \
        autocapitalize="none" spellcheck="false" maxlength="64" aria-describedby="who">
        <p class="hint" id="who">alice, bob, or user- and a number</p>
        <div class="row">
        \(buttons)</div>
        </form>
        """)
  }
}
