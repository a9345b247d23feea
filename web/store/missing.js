/* Where there is no such item: only the words of the buyer's language. */

import { translate } from '/assets/store/shell.js';

translate();
