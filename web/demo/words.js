/*
 * The demonstration's own texts, beside the storefront's: one file per language, of which one is loaded.
 */

import { CHINESE, add } from '/assets/store/shell.js';

add((await import(CHINESE ? '/assets/demo/zh.js' : '/assets/demo/en.js')).default);
